/* Child processes whose standard descriptors are pipes to this process. */
/* not under: qemu */
#include <fcntl.h>

#include "io/drivers.h"

#define LARGE (1 << 20) /* more than a pipe holds */

static weft_process *spawn(const char *script, struct weft_process_opts opts)
{
    weft_process *process = NULL;
    const char *const argv[] = {"sh", "-c", script, NULL};
    CHECK_EQ(weft_process_spawn(&process, argv, &opts), 0);
    return process;
}

static void ended(weft_process *process, int code)
{
    struct weft_process_status status;
    CHECK_EQ(weft_process_wait(process, &status, WEFT_FOREVER), 0);
    CHECK_EQ(status.code, code);
    weft_process_close(process);
}

static void *feeds(void *arg)
{
    static char block[LARGE];
    int fd = *(int *)arg;
    memset(block, 'a', sizeof block);
    CHECK_EQ(weft_write_all(fd, block, sizeof block, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_close(fd), 0);
    return NULL;
}

/* More data than both pipes hold goes through a filter: neither side may deadlock on the other. */
static void *filters(void *arg)
{
    char block[4096];
    size_t got = 0;
    ssize_t n;
    weft_fiber feeder;
    weft_process *process =
        spawn("tr a b", (struct weft_process_opts){.in = WEFT_STDIO_PIPE, .out = WEFT_STDIO_PIPE});
    int in = weft_process_pipe(process, 0), out = weft_process_pipe(process, 1);
    CHECK(in >= 0 && out >= 0);
    CHECK_EQ(weft_process_pipe(process, 0), -EBADF);
    CHECK_EQ(weft_process_pipe(process, 2), -EBADF);
    CHECK_EQ(weft_process_pipe(process, 3), -EBADF);
    CHECK_EQ(weft_spawn(&feeder, feeds, &in, NULL), 0);
    while ((n = weft_read(out, block, sizeof block, WEFT_FOREVER)) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            CHECK_EQ(block[i], 'b');
        }
        got += (size_t)n;
    }
    CHECK_EQ(n, 0);
    CHECK_EQ(got, LARGE);
    CHECK_EQ(weft_join(feeder, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_close(out), 0);
    ended(process, 0);
    return arg;
}

EACH_DRIVER(child_filters_more_than_pipe_capacity)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver, .hog_ns = -1};
    CHECK_EQ(weft_run(NULL, filters, NULL, &opts, WEFT_FOREVER), 0);
}

static void text_of(int fd, const char *expected)
{
    char text[100] = "";
    size_t n = 0;
    CHECK_EQ(weft_read_full(fd, text, sizeof text - 1, &n, WEFT_FOREVER), -ENODATA);
    CHECK_STR(text, expected);
    CHECK_EQ(weft_close(fd), 0);
}

static void *all_three(void *arg)
{
    char byte;
    weft_process *process =
        spawn("echo out; echo err >&2; read x; exit 3",
              (struct weft_process_opts){
                  .in = WEFT_STDIO_PIPE, .out = WEFT_STDIO_PIPE, .err = WEFT_STDIO_PIPE});
    int in = weft_process_pipe(process, 0), out = weft_process_pipe(process, 1);
    int err = weft_process_pipe(process, 2);
    CHECK_EQ(weft_read(out, &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(byte, 'o');
    CHECK_EQ(weft_write(in, "x\n", 2, WEFT_FOREVER), 2);
    text_of(out, "ut\n");
    text_of(err, "err\n");
    ended(process, 3);
    CHECK_EQ(weft_close(in), 0);

    process = spawn("echo out; echo err >&2",
                    (struct weft_process_opts){.out = WEFT_STDIO_PIPE, .err = WEFT_STDIO_OUT});
    out = weft_process_pipe(process, 1);
    text_of(out, "out\nerr\n");
    ended(process, 0);
    return arg;
}

EACH_DRIVER(each_standard_descriptor_of_child_may_be_pipe)
{
    const struct weft_pool_opts opts = {.workers = 2, .driver = driver, .hog_ns = -1};
    CHECK_EQ(weft_run(NULL, all_three, NULL, &opts, WEFT_FOREVER), 0);
}

static int count_fds(bool inherited)
{
    int n = 0;
    for (int i = 0; i < 1024; i++) {
        int flags = fcntl(i, F_GETFD);
        n += (flags >= 0 && !(inherited && (flags & FD_CLOEXEC))) ||
             (inherited && i <= STDERR_FILENO); /* a child has these */
    }
    return n;
}

/* The child sees blocking descriptors, which it shares with no other process. */
static void *as_programs_expect(void *arg)
{
    weft_process *process =
        spawn("set -- /proc/$$/fd/*; echo $#; grep flags /proc/$$/fdinfo/0",
              (struct weft_process_opts){.in = WEFT_STDIO_PIPE, .out = WEFT_STDIO_PIPE});
    int out = weft_process_pipe(process, 1);
    char text[100] = "";
    CHECK_EQ(weft_read_full(out, text, sizeof text - 1, NULL, WEFT_FOREVER), -ENODATA);
    CHECK(atoi(text) <= count_fds(true) + 1); /* a descriptor that the shell may use */
    unsigned long flags = strtoul(strstr(text, "flags:") + 6, NULL, 8);
    CHECK_EQ(flags & O_NONBLOCK, 0);
    CHECK_EQ(weft_close(out), 0);
    ended(process, 0); /* its stdin was not taken: close ends the child */
    return arg;
}

EACH_DRIVER(child_gets_blocking_stdio_and_no_extra_descriptors)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver, .hog_ns = -1};
    CHECK_EQ(weft_run(NULL, as_programs_expect, NULL, &opts, WEFT_FOREVER), 0);
}

TEST(failed_exec_leaks_no_pipes)
{
    weft_process *process;
    int before = count_fds(false);
    const char *const none[] = {"/nowhere/no-such-program", NULL};
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_process_spawn(&process, none,
                                    &(struct weft_process_opts){.in = WEFT_STDIO_PIPE,
                                                                .out = WEFT_STDIO_PIPE,
                                                                .err = WEFT_STDIO_PIPE}),
                 -ENOENT);
        CHECK_EQ(
            weft_process_spawn(&process, none, &(struct weft_process_opts){.out = WEFT_STDIO_OUT}),
            -EBADF);
    }
    CHECK(count_fds(false) <=
          before); /* fewer, because the watchers of earlier children end meanwhile */
}
