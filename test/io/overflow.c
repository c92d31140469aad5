/* More operations than a ring has entries: no operation is lost or waits for ever. */
#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "io/driver.h"
#include "io/drivers.h"

#define MANY 400

static int ends[MANY][2];
static _Atomic(int) got;

static void setup(void)
{
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]), 0);
    }
    atomic_store(&got, 0);
}

static void write_all(void)
{
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(write(ends[i][1], "x", 1), 1);
    }
}

static void make_small(void)
{
#if WEFT_URING
    weft__uring_sizes.submissions = 4;
    weft__uring_sizes.completions = 8;
#endif
    struct rlimit limit = {.rlim_cur = 1024, .rlim_max = 1024};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void *reads(void *arg)
{
    char byte;
    int fd = ends[(intptr_t)arg][0];
    CHECK_EQ(weft_read(fd, &byte, 1, WEFT_FOREVER), 1);
    atomic_fetch_add(&got, 1);
    CHECK_EQ(weft_read(fd, &byte, 1, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_close(fd), 0);
    return NULL;
}

static void *starts(void *arg)
{
    for (intptr_t i = 0; i < MANY; i++) {
        CHECK_EQ(weft_spawn(NULL, reads, (void *)i, NULL), 0);
    }
    for (int i = 0; i < 100; i++) {
        weft_yield();
    }
    write_all(); /* all at once: far more than there are entries */
    return arg;
}

EACH_DRIVER(fiber_waits_beyond_ring_size_all_complete)
{
    make_small();
    for (unsigned workers = 1; workers <= 2; workers++) {
        setup();
        const struct weft_pool_opts opts = {.workers = workers, .driver = driver};
        CHECK_EQ(weft_run(NULL, starts, NULL, &opts, WEFT_FOREVER), 0);
        CHECK_EQ(atomic_load(&got), MANY);
        for (int i = 0; i < MANY;
             i++) { /* not by a count of readers: TSan does not see that a ring's completion follows
                     * the write */
            CHECK_EQ(weft_close(ends[i][1]), 0);
        }
    }
}

static weft_op ops[MANY];
static char bytes[MANY];
static int cancelled;

static void ended(weft_op *op, int64_t result, void *arg)
{
    (void)op, (void)arg;
    CHECK(result == 1 || result == -ECANCELED);
    cancelled += result == -ECANCELED;
    atomic_fetch_add(&got, 1);
}

EACH_DRIVER(operations_beyond_ring_size_all_complete)
{
    weft_loop *loop;
    make_small();
    setup();
    cancelled = 0;
    CHECK_EQ(weft_loop_create(&loop, &(struct weft_loop_opts){.driver = driver}), 0);
    for (int i = 0; i < MANY; i++) {
        weft_op_init(&ops[i], loop, ended, NULL);
        CHECK_EQ(weft_op_read(&ops[i], ends[i][0], &bytes[i], 1, -1, 0), 0);
    }
    weft_loop_turn(loop, 0);
    write_all();
    while (weft_loop_pending(loop) > 0) {
        weft_loop_turn(loop, WEFT_FOREVER);
    }
    CHECK_EQ(atomic_load(&got), MANY);
    CHECK_EQ(cancelled, 0);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_op_read(&ops[i], ends[i][0], &bytes[i], 1, -1, 0), 0);
    }
    weft_loop_turn(loop, 0);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_op_cancel(&ops[i]), 0); /* twice as many entries */
    }
    while (weft_loop_pending(loop) > 0) {
        weft_loop_turn(loop, WEFT_FOREVER);
    }
    CHECK_EQ(cancelled, MANY);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_loop_close(loop, ends[i][0]), 0);
        CHECK_EQ(weft_loop_close(loop, ends[i][1]), 0);
    }
    weft_loop_destroy(loop);
}
