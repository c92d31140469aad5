/* Which calls are hooked, on which threads, and what a hooked call costs. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "hook/hooked.h"

static _Atomic(long) allocations;

/* Interposed before the C library's function to count calls. A sanitizer interposes its own. */
#include "context/sanitizer.h"
#if !WEFT__ASAN && !WEFT__TSAN
extern void *__libc_malloc(size_t n);
__attribute__((visibility("default"))) void *malloc(size_t n)
{
    allocations++;
    return __libc_malloc(n);
}
#endif

static void *yields(void *arg)
{
    _Atomic(int) *turns = arg;
    while (*turns >= 0) {
        ++*turns;
        weft_yield();
    }
    return NULL;
}

/* Whether other fibers run while this one sleeps. Not every attempt succeeds: the machine may take
 * the CPU away for as long as the sleep. */
static bool lets_others_run(_Atomic(int) *turns)
{
    int before = *turns;
    for (int i = 0; i < 20 && *turns == before; i++) {
        usleep(2000);
    }
    return *turns != before;
}

IN_FIBER(hooks_are_enabled_per_fiber_and_thread)
{
    _Atomic(int) turns = 0;
    weft_fiber fiber;
    CHECK(weft_hook_is_loaded());
    CHECK(weft_hook_is_active());
    CHECK_EQ(weft_spawn(&fiber, yields, &turns, NULL), 0);
    CHECK(lets_others_run(&turns));
    CHECK(weft_hook_enable(false));
    CHECK(!weft_hook_is_active());
    CHECK(!lets_others_run(&turns));
    CHECK(!weft_hook_enable(true));
    CHECK(lets_others_run(&turns));
    CHECK(weft_hook_enable_thread(false));
    CHECK(!weft_hook_is_active());
    CHECK(!lets_others_run(&turns));
    CHECK(!weft_hook_enable_thread(true));
    CHECK(lets_others_run(&turns));
    turns = -1;
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
}

TEST(plain_thread_makes_plain_calls)
{
    CHECK(!weft_hook_is_active());
    CHECK(!weft_hook_enable(true));
    struct timespec time = {.tv_nsec = 1};
    CHECK_EQ(nanosleep(&time, NULL), 0);
}

/* --- where hooked calls apply ----------------------------------------------------------------- */

static unsigned bound_on(unsigned worker)
{
    struct weft_worker_stats stats;
    CHECK_EQ(weft_worker_stats(weft_pool_self(), &stats, worker), 0);
    return (unsigned)stats.bound;
}

static void *calls(void *arg)
{
    int ends[2];
    char c = 0;
    unsigned before = 0;
    for (unsigned i = 0; i < weft_pool_workers(weft_pool_self()); i++) {
        before += bound_on(i);
    }
    CHECK_EQ(before, 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    CHECK_EQ(send(ends[0], "x", 1, 0), 1); /* does not wait, and binds the fiber */
    int worker = weft_worker_self();
    CHECK_EQ(bound_on((unsigned)worker), 1);
    for (int i = 0; i < 1000; i++) {
        weft_yield();
        CHECK_EQ(weft_worker_self(), worker);
    }
    CHECK_EQ(recv(ends[1], &c, 1, 0), 1);
    close(ends[0]);
    close(ends[1]);
    return arg;
}

TEST(first_hooked_call_binds_fiber_to_worker)
{
    CHECK_EQ(weft_run(NULL, calls, NULL, &(struct weft_pool_opts){.workers = 4}, WEFT_FOREVER), 0);
}

static void *stays(void *arg)
{
    int worker = weft_worker_self();
    size_t size, used;
    CHECK_EQ(weft_fiber_stack(weft_self(), &size, &used), 0);
    CHECK_EQ(size, 256 * 1024);
    atomic_fetch_add((_Atomic(int) *)arg + worker, 1);
    usleep(1000);
    CHECK_EQ(weft_worker_self(), worker);
    return NULL;
}

TEST(hooked_fibers_are_balanced_over_workers)
{
    enum { N = 40, WORKERS = 4 };
    _Atomic(int) on[WORKERS] = {0};
    weft_pool *pool;
    weft_fiber fibers[N];
    const struct weft_fiber_opts hooked = {.hooked = true};
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = WORKERS}), 0);
    for (int i = 0; i < N; i++) { /* before it runs, so that none has ended */
        if (i % 2) {
            CHECK_EQ(weft_pool_spawn(pool, &fibers[i], stays, on, &hooked), 0);
        } else {
            CHECK_EQ(weft_fiber_create(&fibers[i], stays, on, &hooked), 0);
            CHECK_EQ(weft_fiber_submit(fibers[i], pool, WEFT_ANY_WORKER), 0);
        }
    }
    CHECK_EQ(weft_pool_start(pool), 0);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        CHECK_EQ(on[i], N / WORKERS);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

static void *here(void *arg)
{
    *(int *)arg = weft_worker_self();
    return NULL;
}

/* The caller thread is away: no thread would run a task put on its worker. */
TEST(hooked_fibers_avoid_absent_caller)
{
    weft_pool *pool;
    int at = -1;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2, .caller = true}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    for (int i = 0; i < 4; i++) {
        weft_fiber fiber;
        CHECK_EQ(
            weft_pool_spawn(pool, &fiber, here, &at, &(struct weft_fiber_opts){.hooked = true}), 0);
        CHECK_EQ(weft_join(fiber, NULL, weft_after(INT64_C(60000000000))), 0);
        CHECK_EQ(at, 1);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

static void *computes(void *arg)
{
    int ends[2];
    char c;
    struct timeval time = {.tv_usec = 10000};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    CHECK_EQ(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time), 0);
    CHECK_FAILS(HOOKED_AGAIN(recv(ends[0], &c, 1, 0)), EAGAIN); /* with the plain call */
    struct pollfd one = {.fd = ends[0], .events = POLLIN};
    CHECK_EQ(poll(&one, 1, 5), 0);
    close(ends[0]);
    close(ends[1]);
    return arg;
}

TEST(compute_pool_fiber_makes_plain_calls)
{
    const struct weft_pool_opts opts = {.workers = 1, .compute = true};
    CHECK_EQ(weft_run(NULL, computes, NULL, &opts, WEFT_FOREVER), 0);
}

/* A frame has no stack to wait on. */
struct stepping {
    weft_frame frame;
    int over; /* a number that the runtime knows */
};

static enum weft_step steps(weft_frame *f, struct weft_got got)
{
    struct stepping *self = (struct stepping *)(void *)f;
    int ends[2];
    char c = 0;
    struct timespec time = {.tv_nsec = 1000};
    (void)got;
    CHECK(!weft_hook_is_active());
    CHECK_EQ(nanosleep(&time, NULL), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    CHECK_EQ(send(ends[0], "x", 1, 0), 1);
    CHECK_EQ(dup2(ends[1], self->over), self->over);
    CHECK_EQ(read(self->over, &c, 1), 1);
    CHECK_EQ(c, 'x');
    CHECK_EQ(close(ends[1]), 0);
    CHECK_EQ(send(ends[0], "y", 1, 0), 1);
    CHECK_EQ(close(ends[0]), 0);
    return weft_frame_return(f, NULL);
}

static const struct weft_frame_kind stepping = {.name = "stepping", .start = steps};

IN_FIBER(frame_step_makes_plain_calls)
{
    int ends[2];
    char c = 0;
    weft_fiber fiber;
    struct timeval time = {.tv_usec = 1000};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    CHECK_EQ(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time), 0);
    CHECK_FAILS(recv(ends[0], &c, 1, 0), EAGAIN);
    struct stepping frame = {.over = ends[0]};
    weft_frame_init(&frame.frame, &stepping);
    CHECK_EQ(weft_spawn_frame(&fiber, &frame.frame, NULL), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(recv(ends[0], &c, 1, 0), 1); /* the number now names the step's socket */
    CHECK_EQ(c, 'y');
    CHECK_EQ(recv(ends[0], &c, 1, 0), 0);
    close(ends[0]);
    close(ends[1]);
}

static void *sleeps_in_group(void *arg)
{
    int *asleep = arg;
    ++*asleep;
    usleep(1000);
    for (int i = 0; i < 60000 && *asleep < 5; i++) {
        usleep(1000);
    }
    CHECK_EQ(*asleep, 5); /* all fibers sleep at the same time */
    return NULL;
}

TEST(dispatcher_fibers_wait_in_hooked_calls)
{
    weft_dispatcher *dispatcher;
    weft_group *group;
    weft_fiber fibers[5];
    int asleep = 0;
    CHECK_EQ(weft_dispatcher_create(&dispatcher, NULL), 0);
    CHECK_EQ(weft_dispatcher_start(dispatcher), 0);
    CHECK_EQ(weft_group_create(dispatcher, &group, NULL), 0);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_group_spawn(group, &fibers[i], sleeps_in_group, &asleep, NULL), 0);
    }
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(dispatcher);
}

/* --- cost ------------------------------------------------------------------------------------- */

IN_FIBER(hooked_calls_on_ready_fd_allocate_nothing)
{
    int ends[2], pipes[2];
    char buf[8] = "abcdefg";
    struct iovec iov = {buf, 4};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    CHECK_EQ(pipe(pipes), 0);
    long before = allocations;
    for (int i = 0; i < 100; i++) {
        struct pollfd fds[] = {{.fd = ends[1], .events = POLLIN},
                               {.fd = pipes[0], .events = POLLIN}};
        CHECK_EQ(send(ends[0], buf, 4, 0), 4);
        CHECK_EQ(write(pipes[1], buf, 4), 4);
        CHECK_EQ(poll(fds, 2, -1), 2);
        CHECK_EQ(read(pipes[0], buf, 8), 4);
        CHECK_EQ(recv(ends[1], buf, 8, 0), 4);
        CHECK_EQ(sendmsg(ends[0], &msg, 0), 4);
        CHECK_EQ(recvmsg(ends[1], &msg, 0), 4);
    }
    CHECK_EQ(allocations, before);
    close(ends[0]);
    close(ends[1]);
    close(pipes[0]);
    close(pipes[1]);
}

/* --- a cancelled fiber ------------------------------------------------------------------------ */

static void *waits_for_ever(void *arg)
{
    int ends[2], pipes[2];
    char c;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    CHECK_EQ(pipe(pipes), 0);
    CHECK_FAILS(recv(ends[0], &c, 1, 0), ECANCELED);
    CHECK_FAILS(read(pipes[0], &c, 1), ECANCELED);
    struct pollfd fds[] = {{.fd = ends[0], .events = POLLIN}, {.fd = pipes[0], .events = POLLIN}};
    CHECK_FAILS(poll(fds, 2, -1), ECANCELED);
    CHECK_FAILS(poll(fds, 1, -1), ECANCELED);
    fd_set in;
    FD_ZERO(&in);
    FD_SET(ends[0], &in);
    CHECK_FAILS(select(ends[0] + 1, &in, NULL, NULL, NULL), ECANCELED);
    CHECK_EQ(send(ends[1], "x", 1, 0), 1); /* calls that need not wait succeed */
    CHECK_EQ(recv(ends[0], &c, 1, 0), 1);
    close(ends[0]);
    close(ends[1]);
    close(pipes[0]);
    close(pipes[1]);
    return arg;
}

IN_FIBER(cancel_ends_hooked_calls)
{
    weft_fiber fiber;
    CHECK_EQ(weft_spawn(&fiber, waits_for_ever, NULL, NULL), 0);
    weft_yield();
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
}

/* --- a signal handler ------------------------------------------------------------------------- */

static int told[2];

static void tell(int number)
{
    (void)number;
    int before = errno;
    if (write(told[1], "x", 1) != 1 || pthread_self() == 0) {
        abort();
    }
    errno = before;
}

/* A handler that writes into a pipe, as handlers do, at any moment of a fiber's life. */
IN_FIBER(signal_handler_may_write_to_pipe)
{
    struct sigaction act = {.sa_handler = tell, .sa_flags = SA_RESTART};
    char c;
    CHECK_EQ(pipe2(told, O_NONBLOCK), 0);
    sigaction(SIGUSR1, &act, NULL);
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(kill(getpid(), SIGUSR1), 0);
        weft_yield();
        usleep(10);
        while (read(told[0], &c, 1) != 1) {
            usleep(10);
        }
    }
    signal(SIGUSR1, SIG_DFL);
    close(told[0]);
    close(told[1]);
}
