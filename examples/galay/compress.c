/* galay's page recommends compute schedulers for encryption and compression. Here zlib compresses
 * the blocks of a file on isolated pools (one thread each), while the fiber that reads and writes
 * stays on its own pool: however long a block takes, I/O never waits for it.
 *
 *   compress FILE FILE.gz   writes a file for gunzip: a gzip member for each block
 *   compress                compresses a generated text, and checks the result
 */
/* needs: zlib */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <weft/weft.h>

enum { BLOCK = 256 * 1024, PACKED = BLOCK + 1024, AT_ONCE = 8, GZIP = 15 + 16 };

struct block {
    weft_fiber fiber;
    size_t len, packed_len; /* packed_len 0: zlib failed */
    unsigned char bytes[BLOCK], packed[PACKED];
};

static weft_pool_set *compressors;

static void *compress_block(void *arg)
{
    struct block *block = arg;
    z_stream z = {.next_in = block->bytes,
                  .avail_in = (unsigned)block->len,
                  .next_out = block->packed,
                  .avail_out = PACKED};
    block->packed_len = 0;
    if (deflateInit2(&z, 6, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY) == Z_OK) {
        block->packed_len = deflate(&z, Z_FINISH) == Z_STREAM_END ? z.total_out : 0;
        deflateEnd(&z);
    }
    return NULL;
}

/* Reads up to AT_ONCE blocks and starts a fiber for each; *started is their number, also after an
 * error. */
static int start_blocks(int in, struct block *blocks, int *started)
{
    for (*started = 0; *started < AT_ONCE; ++*started) {
        struct block *block = &blocks[*started];
        block->len = 0;
        int err = weft_read_full(in, block->bytes, BLOCK, &block->len, WEFT_FOREVER);
        if (err && err != -ENODATA) {
            return err;
        }
        if (block->len == 0) {
            return 0;
        }
        err = weft_pool_set_spawn(compressors, &block->fiber, compress_block, block, NULL);
        if (err) {
            return err;
        }
    }
    return 0;
}

/* Writes the blocks in file order, whichever is ready first. Joins all fibers, because they use the
 * blocks. */
static int write_blocks(int out, struct block *blocks, int n, int err)
{
    for (int i = 0; i < n; i++) {
        weft_join(blocks[i].fiber, NULL, WEFT_FOREVER);
        if (!err) {
            err = blocks[i].packed_len ? weft_write_all(out, blocks[i].packed, blocks[i].packed_len,
                                                        NULL, WEFT_FOREVER)
                                       : -ENOMEM;
        }
    }
    return err;
}

static int compress_stream(int in, int out)
{
    struct block *blocks = malloc(AT_ONCE * sizeof *blocks);
    int n, err = blocks ? 0 : -ENOMEM;
    while (!err) {
        err = start_blocks(in, blocks, &n);
        err = write_blocks(out, blocks, n, err);
        if (n < AT_ONCE) {
            break;
        }
    }
    free(blocks);
    return err;
}

/* --- the program --------------------------------------------------------------------------- */

static char **paths; /* FILE and FILE.gz */

static void *compress_file(void *arg)
{
    int in = weft_open_at(AT_FDCWD, paths[0], O_RDONLY, 0, 0, WEFT_FOREVER);
    int out = in < 0 ? in
                     : weft_open_at(AT_FDCWD, paths[1], O_WRONLY | O_CREAT | O_TRUNC, 0666, 0,
                                    WEFT_FOREVER);
    int err = out < 0 ? out : compress_stream(in, out);
    if (out >= 0) {
        weft_close(out);
    }
    if (in >= 0) {
        weft_close(in);
    }
    if (err) {
        fprintf(stderr, "compress: %s to %s: %s\n", paths[0], paths[1], strerror(-err));
    }
    return err ? arg : NULL;
}

/* 5 MiB of text go in through a temporary file; gzip's own reader must reproduce the same text from
 * the output. */
enum { LINES = 100000 };

static void *compress_itself(void *arg)
{
    char line[64], got[64];
    FILE *in = tmpfile(), *out = tmpfile();
    if (!in || !out) {
        return arg;
    }
    for (int i = 0; i < LINES; i++) {
        fprintf(in, "line %d of a text that is a little repetitive\n", i);
    }
    rewind(in);
    int err = compress_stream(fileno(in), fileno(out));
    rewind(out);
    gzFile back = gzdopen(dup(fileno(out)), "rb");
    int same = 0;
    while (!err && back && same < LINES && gzgets(back, got, sizeof got)) {
        snprintf(line, sizeof line, "line %d of a text that is a little repetitive\n", same);
        if (strcmp(line, got) != 0) {
            break;
        }
        same++;
    }
    gzclose(back);
    fseek(in, 0, SEEK_END);
    fseek(out, 0, SEEK_END);
    printf("%ld bytes became %ld on %u pools; %d of %d lines came back\n", ftell(in), ftell(out),
           weft_pool_set_size(compressors), same, LINES);
    fclose(in);
    fclose(out);
    return same == LINES ? NULL : arg;
}

int main(int argc, char **argv)
{
    void *failed = NULL;
    if (weft_pool_set_create(&compressors, &(struct weft_pool_set_opts){.name = "gzip"}) ||
        weft_pool_set_start(compressors)) {
        return 1;
    }
    paths = argv + 1;
    int err =
        weft_run(&failed, argc > 2 ? compress_file : compress_itself, &paths, NULL, WEFT_FOREVER);
    weft_pool_set_stop(compressors, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_set_destroy(compressors);
    return err || failed ? 1 : 0;
}
