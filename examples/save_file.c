/* Saves the state of a program so that a crash at any moment leaves either the old state or the new
 * one, never half of it: write a temporary file, flush it, rename it over the old file, flush the
 * directory. The header and the body are in different places in memory; one call writes both, and
 * one call reads both. No worker blocks while the disk works. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* struct statx */
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

struct header {
    char magic[8];
    uint64_t body_bytes;
};
static const char magic[8] = "STATE 1";

static int write_and_flush(int fd, void *body, size_t n, int64_t deadline)
{
    struct header header = {.body_bytes = n};
    const struct iovec parts[] = {{&header, sizeof header}, {body, n}};
    memcpy(header.magic, magic, sizeof magic);
    ssize_t written = weft_pwritev(fd, parts, 2, 0, deadline);
    if (written < 0) {
        return (int)written;
    }
    if ((size_t)written < sizeof header + n) {
        return -EIO; /* fewer bytes: an error such as a full disk */
    }
    return weft_fsync(fd, false, deadline);
}

static int save(int dir, const char *name, void *body, size_t n, int64_t deadline)
{
    static const char temporary[] = "state.new";
    int fd = weft_open_at(dir, temporary, O_CREAT | O_TRUNC | O_WRONLY, 0600, 0, deadline);
    if (fd < 0) {
        return fd;
    }
    int err = write_and_flush(fd, body, n, deadline);
    weft_close(fd);
    err = err ? err : weft_rename_at(dir, temporary, dir, name, 0, deadline);
    if (err) {
        weft_unlink_at(dir, temporary, 0, WEFT_FOREVER);
        return err;
    }
    return weft_fsync(dir, false, deadline); /* the rename itself is on the disk now */
}

static int read_body(int fd, char **out, size_t *n, int64_t deadline)
{
    struct header header;
    struct statx status;
    int err = weft_fstat(fd, &status, deadline);
    if (err) {
        return err;
    }
    if (status.stx_size <= sizeof header) {
        return -EBADMSG;
    }
    *n = (size_t)status.stx_size - sizeof header;
    *out = malloc(*n);
    if (!*out) {
        return -ENOMEM;
    }
    const struct iovec parts[] = {{&header, sizeof header}, {*out, *n}};
    ssize_t got = weft_preadv(fd, parts, 2, 0, deadline);
    if (got == (ssize_t)status.stx_size && header.body_bytes == *n &&
        memcmp(header.magic, magic, sizeof magic) == 0) {
        return 0;
    }
    free(*out);
    return got < 0 ? (int)got : -EBADMSG;
}

/* Returns 0 and the body, which the caller frees; -ENOENT if no state was saved yet. */
static int load(int dir, const char *name, char **out, size_t *n, int64_t deadline)
{
    int fd = weft_open_at(dir, name, O_RDONLY, 0, 0, deadline);
    if (fd < 0) {
        return fd;
    }
    int err = read_body(fd, out, n, deadline);
    weft_close(fd);
    return err;
}

/* --- usage ------------------------------------------------------------------------------ */

static int save_twice_and_load(int dir)
{
    static char first[] = "level 1", second[] = "level 2, 100 points";
    struct statx status;
    char *body;
    size_t n;
    int64_t deadline = weft_after(WEFT_MINUTES(5));
    int err = load(dir, "state", &body, &n, deadline);
    if (err != -ENOENT) {
        return -EEXIST;
    }
    printf("first start: %s\n", weft_strerror(err));
    err = save(dir, "state", first, sizeof first, deadline);
    err = err ? err : save(dir, "state", second, sizeof second, deadline);
    err = err ? err : load(dir, "state", &body, &n, deadline);
    if (err) {
        return err;
    }
    printf("restored: %.*s\n", (int)n, body);
    bool equal = n == sizeof second && memcmp(body, second, n) == 0;
    free(body);
    err = weft_stat_at(dir, &status, "state.new", 0, STATX_TYPE, deadline);
    return equal && err == -ENOENT ? 0 : -EIO; /* no temporary file is left */
}

static void *run(void *arg)
{
    const char *base = arg;
    int top = weft_open_at(AT_FDCWD, base, O_RDONLY | O_DIRECTORY, 0, 0, WEFT_FOREVER);
    int err = top < 0 ? top : weft_mkdir_at(top, "app", 0700, WEFT_FOREVER);
    if (!err) {
        int dir = weft_open_at(top, "app", O_RDONLY | O_DIRECTORY, 0, 0, WEFT_FOREVER);
        err = dir < 0 ? dir : save_twice_and_load(dir);
        weft_unlink_at(dir, "state", 0, WEFT_FOREVER);
        weft_close(dir);
        weft_unlink_at(top, "app", AT_REMOVEDIR, WEFT_FOREVER);
    }
    weft_close(top);
    weft_unlink_at(AT_FDCWD, base, AT_REMOVEDIR, WEFT_FOREVER);
    return (void *)(intptr_t)err;
}

int main(void)
{
    char base[] = "/tmp/weft-save-XXXXXX";
    void *failure = NULL;
    int err = mkdtemp(base) ? weft_run(&failure, run, base, NULL, WEFT_FOREVER) : -EIO;
    err = err ? err : (int)(intptr_t)failure;
    if (err) {
        fprintf(stderr, "save_file: %s\n", weft_strerror(err));
    }
    return err ? 1 : 0;
}
