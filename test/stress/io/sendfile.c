/* A file beyond 2 GiB, which no system call sends in one go, arrives complete. */
/* not under: valgrind qemu */
#include <sys/mman.h>

#include "io/drivers.h"

#define GIB ((int64_t)1 << 30)
#define BYTES (2 * GIB + GIB / 8 + 5)

/* Texts in a sparse file, at the offsets where a 31-bit count would have gone wrong, and at its
 * end. */
static const struct {
    int64_t at;
    const char *text;
} marks[] = {{0, "begin"}, {2 * GIB - 3, "cross"}, {BYTES - 5, "final"}};
#define MARKS (int)(sizeof marks / sizeof *marks)

static int file, ends[2];

static void make_file(void)
{
    file = memfd_create("weft-sendfile", MFD_CLOEXEC);
    CHECK(file >= 0);
    CHECK_EQ(ftruncate(file, BYTES), 0);
    for (int i = 0; i < MARKS; i++) {
        CHECK_EQ(pwrite(file, marks[i].text, 5, marks[i].at), 5);
    }
}

static void connect_ends(void)
{
    struct weft_addr addr;
    int fd = weft_listen("127.0.0.1:0", NULL);
    CHECK_EQ(weft_addr_local(fd, &addr), 0);
    ends[0] = weft_connect(&addr, WEFT_FOREVER);
    ends[1] = weft_accept(fd, NULL, WEFT_FOREVER);
    CHECK(ends[0] >= 0 && ends[1] >= 0);
    CHECK_EQ(weft_close(fd), 0);
}

/* Discards the data between the marks, without a copy. */
static void *reads(void *arg)
{
    int64_t at = 0;
    char text[6] = "";
    for (int i = 0; i < MARKS; i++) {
        while (at < marks[i].at) {
            ssize_t n =
                weft_recv(ends[1], NULL, (size_t)(marks[i].at - at), MSG_TRUNC, WEFT_FOREVER);
            CHECK(n > 0);
            at += n;
        }
        CHECK_EQ(weft_read_full(ends[1], text, 5, NULL, WEFT_FOREVER), 0);
        CHECK_STR(text, marks[i].text);
        at += 5;
    }
    CHECK_EQ(weft_read(ends[1], text, 1, WEFT_FOREVER), 0);
    return arg;
}

static void *run(void *arg)
{
    weft_fiber reader;
    size_t done;
    make_file();
    connect_ends();
    CHECK_EQ(weft_spawn(&reader, reads, NULL, NULL), 0);
    CHECK_EQ(weft_sendfile_all(ends[0], file, 0, (size_t)BYTES, &done, WEFT_FOREVER), 0);
    CHECK_EQ(done, BYTES);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_join(reader, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
    CHECK_EQ(weft_close(file), 0);
    return arg;
}

EACH_DRIVER(sendfile_of_more_than_two_gib_arrives_whole)
{
    const struct weft_pool_opts opts = {.workers = 2, .driver = driver};
    CHECK_EQ(weft_run(NULL, run, NULL, &opts, WEFT_FOREVER), 0);
}
