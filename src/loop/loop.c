#include "loop/loop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/nonnull.h"

#define TIMERS 256 /* timers called in one turn */
#define MAX_TICK_NS 1000000000
#define WAKES 16 /* fibers woken together that wait for a descriptor of this loop */

struct weft__loop_post {
    struct weft__loop_post *next;
    void (*fn)(void *arg);
    void *arg;
};

/* --- create and destroy ---------------------------------------------------------- */

/* A close in a forked child must not remove the parent's descriptors from the parent's epoll. */
static void watch_forks(void)
{
    int err = pthread_atfork(NULL, NULL, weft__fd_fork_child);
    WEFT__REQUIRE(!err, "pthread_atfork failed: no memory");
}

static unsigned tick_shift(int64_t tick_ns)
{
    return tick_ns > 1 ? 64 - (unsigned)__builtin_clzll((uint64_t)tick_ns - 1) : 0;
}

static void init(weft_loop *loop, int64_t tick_ns)
{
    loop->now = weft__clock_ns();
    weft__wheel_init(&loop->wheel, loop->now, tick_shift(tick_ns));
    weft__list_init(&loop->todo);
    weft__list_init(&loop->done);
    weft__list_init(&loop->completed);
    weft__list_init(&loop->all);
    weft__list_init(&loop->unverified);
    weft__list_init(&loop->ready);
    weft__list_init(&loop->paused);
    weft__op_queue_init(&loop->woken);
    loop->last_post = &loop->posts;
}

int weft_loop_create(weft_loop **out, const struct weft_loop_opts *options)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct weft_loop_opts opts = {0};
    const struct weft__driver_kind *kind;
    const char *why;
    if (options) {
        opts = *options;
    }
    opts.timer_tick_ns = opts.timer_tick_ns ? opts.timer_tick_ns : 1 << WEFT__WHEEL_TICK_SHIFT;
    if (opts.timer_tick_ns < 0 || opts.timer_tick_ns > MAX_TICK_NS) {
        return weft__refuse(-EINVAL, "timer_tick_ns: must be from 0 to one second");
    }
    int err = weft__driver_check(opts.driver);
    if (err) {
        return err;
    }
    err = weft__driver_choose(opts.driver, &kind, &why);
    if (err) {
        return weft__refuse(err, why);
    }
    pthread_once(&once, watch_forks);
    weft_loop *loop = weft__alloc_dirty(sizeof *loop);
    if (!loop) {
        return -ENOMEM;
    }
    memset(loop, 0, offsetof(weft_loop, wheel.slots));
    init(loop, opts.timer_tick_ns);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    err = loop->wake_fd < 0 ? -errno : 0;
    if (err) {
        goto free_loop;
    }
    err = weft__driver_open(&loop->driver, kind, true, loop->wake_fd, &loop->io);
    if (err && weft__driver_fall_back(opts.driver, err, &kind, &why)) {
        err = weft__driver_open(&loop->driver, kind, true, loop->wake_fd, &loop->io);
    }
    if (err) {
        goto close_wake;
    }
    loop->woken.driver = loop->driver;
    loop->completes = kind->completes;
    *out = loop;
    return 0;

close_wake:
    close(loop->wake_fd);
free_loop:
    weft__free(loop);
    return err;
}

static int call_posts(weft_loop *loop);
static void drain_woken(weft_loop *loop);
static void find_callbacks(weft_loop *loop, int64_t deadline);

void weft_loop_destroy(weft_loop *loop)
{
    if (!loop) {
        return;
    }
    WEFT__REQUIRE(!loop->turning, "a loop is destroyed by one of its callbacks");
    while (call_posts(loop) > 0) {
    }
    WEFT__REQUIRE(loop->ops == 0, "a loop is destroyed with %zu operations in it", loop->ops);
    WEFT__REQUIRE(weft__wheel_is_empty(&loop->wheel), "a loop is destroyed with timers in it");
    weft__reactor_remove_all(loop);
    drain_woken(loop); /* operations ended by a close and not reported yet */
    while (loop->completes && atomic_load_explicit(&loop->io.linked, memory_order_relaxed) > 0) {
        find_callbacks(loop, INT64_MAX); /* operations that the kernel still has in flight */
    }
    weft__lock(&loop->lock); /* the last waker has released the lock */
    weft__unlock(&loop->lock);
    weft__lock(&loop->woken.lock); /* and so has the last thread that has closed a descriptor */
    weft__unlock(&loop->woken.lock);
    weft__fd_detach_driver(loop->driver);
    weft__driver_close(loop->driver);
    close(loop->wake_fd);
    weft__free(loop);
}

const char *weft_loop_driver(const weft_loop *loop)
{
    WEFT__NONNULL(loop);
    return loop->driver->kind->name;
}

size_t weft_loop_pending(const weft_loop *loop)
{
    WEFT__NONNULL(loop);
    return loop->ops + loop->watches;
}

/* --- calls from any thread --------------------------------------------------------- */

int weft_loop_post(weft_loop *loop, void (*fn)(void *arg), void *arg)
{
    WEFT__NONNULL(loop);
    struct weft__loop_post *post = weft__alloc(sizeof *post);
    if (!post) {
        return -ENOMEM;
    }
    *post = (struct weft__loop_post){.fn = fn, .arg = arg};
    weft__lock(&loop->lock);
    if (!loop->posts) {
        weft__driver_wake(loop->driver);
    }
    *loop->last_post = post;
    loop->last_post = &post->next;
    weft__unlock(&loop->lock);
    return 0;
}

void weft_loop_stop(weft_loop *loop)
{
    WEFT__NONNULL(loop);
    weft__lock(&loop->lock);
    atomic_store_explicit(&loop->stopping, true, memory_order_relaxed);
    weft__driver_wake(loop->driver);
    weft__unlock(&loop->lock);
}

static bool stopping(const weft_loop *loop)
{
    return atomic_load_explicit(&loop->stopping, memory_order_relaxed);
}

/* --- a turn --------------------------------------------------------------------------- */

static void handle_woken(struct weft__op *first)
{
    struct weft__op *op = first, *next;
    for (; op; op = next) {
        struct weft__loop_item *item = (struct weft__loop_item *)(void *)op;
        next = op->next;
        item->woken(item);
    }
}

static void drain_woken(weft_loop *loop)
{
    handle_woken(weft__op_queue_take(&loop->woken));
}

/* Fibers may wait for the descriptors of this loop too: they are woken at once. */
static void dispatch(weft_loop *loop)
{
    struct weft__io_wake wakes[WAKES];
    struct weft__io_done done;
    weft__io_done_init_foreign(&done, wakes, WAKES);
    done.own = &loop->woken;
    loop->driver->kind->dispatch(loop->driver, weft__loop_here(loop), &done);
    weft__io_done_wake_foreign(&done);
    handle_woken(done.ops);
}

static bool has_calls(const weft_loop *loop)
{
    return !weft__list_empty(&loop->done) || !weft__list_empty(&loop->ready) ||
           !weft__list_empty(&loop->completed);
}

static bool has_work(const weft_loop *loop)
{
    return has_calls(loop) || !weft__list_empty(&loop->todo) ||
           !weft__list_empty(&loop->unverified);
}

/* Find the callbacks to invoke; wait for one until the deadline, once. */
static void find_callbacks(weft_loop *loop, int64_t deadline)
{
    drain_woken(loop); /* after a close, operations started before it come before those started
                          since */
    weft__proactor_try(loop);
    weft__reactor_verify(loop);
    int64_t timer = weft__wheel_next(&loop->wheel);
    int64_t until = timer < deadline ? timer : deadline;
    bool wait = !has_work(loop) && !stopping(loop) && until > loop->now;
    loop->dirty = false;
    loop->driver->kind->wait(loop->driver, wait ? until : 0);
    dispatch(loop);
    drain_woken(loop);
    weft__proactor_try(loop);
    if (!loop->completes) {
        weft__reactor_verify(loop);
    }
    loop->now = weft__clock_ns();
}

static void timer_expired(struct weft__timer *timer, void *arg)
{
    ((weft_loop *)arg)->due = timer;
}

struct loop_timer {
    struct weft__timer timer;
    weft_loop *loop;
    weft_loop_timer_fn fn;
    void *arg;
};
_Static_assert(sizeof(struct loop_timer) <= sizeof(weft_loop_timer), "a timer fits");

static int call_timers(weft_loop *loop)
{
    int n = 0;
    while (n < TIMERS && weft__wheel_next(&loop->wheel) <= loop->now) {
        loop->due = NULL;
        weft__wheel_advance(&loop->wheel, loop->now, 1, loop);
        if (loop->due) {
            struct loop_timer *timer = (struct loop_timer *)(void *)loop->due;
            n++;
            timer->fn((weft_loop_timer *)(void *)timer, timer->arg); /* the timer may be freed */
        }
    }
    return n;
}

static int call_posts(weft_loop *loop)
{
    int n = 0;
    weft__lock(&loop->lock);
    struct weft__loop_post *post = loop->posts, *next;
    loop->posts = NULL;
    loop->last_post = &loop->posts;
    weft__unlock(&loop->lock);
    for (; post; post = next, n++) {
        next = post->next;
        post->fn(post->arg);
        weft__free(post);
    }
    return n;
}

static int call_all(weft_loop *loop)
{
    int n = call_timers(loop);
    n += call_posts(loop);
    n += weft__reactor_dispatch(loop);
    n += weft__proactor_deliver(loop);
    return n;
}

static int turn(weft_loop *loop, int64_t deadline)
{
    int n;
    WEFT__REQUIRE(!loop->turning,
                  "a loop is run by one of its own callbacks, or by two threads at once");
    loop->turning = true;
    loop->now = weft__clock_ns();
    do {
        find_callbacks(loop, deadline);
        n = call_all(loop);
    } while (n == 0 && loop->now < deadline && !stopping(loop));
    loop->turning = false;
    return n;
}

int weft_loop_turn(weft_loop *loop, int64_t deadline)
{
    WEFT__NONNULL(loop);
    weft__deadline_check(deadline);
    return turn(loop, deadline);
}

void weft_loop_run(weft_loop *loop)
{
    WEFT__NONNULL(loop);
    do {
        turn(loop, INT64_MAX);
    } while (!stopping(loop));
    atomic_store_explicit(&loop->stopping, false, memory_order_relaxed);
}

/* --- embedding in another loop ---------------------------------------------------------- */

int weft_loop_fd(const weft_loop *loop)
{
    WEFT__NONNULL(loop);
    return loop->driver->poll_fd;
}

int64_t weft_loop_next_deadline(weft_loop *loop)
{
    WEFT__NONNULL(loop);
    int64_t timer = weft__wheel_next(&loop->wheel);
    int64_t again = atomic_load_explicit(&loop->driver->repoll_at, memory_order_relaxed);
    return loop->dirty || has_work(loop) ? 0 : again < timer ? again : timer;
}

/* --- descriptors ---------------------------------------------------------------------------- */

int weft__loop_claim(weft_loop *loop, struct weft__fd *record)
{
    return loop->completes ? 0 : weft__fd_claim(record, loop->driver);
}

int weft__loop_link(weft_loop *loop, struct weft__fd *record, struct weft__op *op,
                    uint32_t generation, uint32_t edges)
{
    int err = weft__fd_link(record, op, generation, edges, loop->driver);
    if (!err) {
        weft__driver_count(loop->driver, -1);
        weft__driver_count(weft__loop_here(loop), 1);
    }
    return err;
}

/* A refused operation is reported in the next turn. */
void weft__loop_submit(weft_loop *loop, struct weft__op *op)
{
    if (!loop->driver->kind->submit(loop->driver, op)) {
        op->result = WEFT__CLOSED;
        weft__op_queue_push(&loop->woken, op, NULL);
    }
}

int weft__loop_sides(short revents)
{
    const int in = 1 << WEFT__SIDE_IN, out = 1 << WEFT__SIDE_OUT;
    if (revents & POLLNVAL) {
        return WEFT__CLOSED;
    }
    if (revents & (POLLERR | POLLHUP)) {
        return in | out;
    }
    return (revents & (POLLIN | POLLRDHUP) ? in : 0) | (revents & POLLOUT ? out : 0);
}

static bool belongs_elsewhere(weft_loop *loop, struct weft__fd *record)
{
    weft__latch_lock(&record->lock);
    bool other = record->driver && record->driver != loop->driver;
    weft__latch_unlock(&record->lock);
    return other;
}

int weft_loop_close(weft_loop *loop, int fd)
{
    WEFT__NONNULL(loop);
    struct weft__fd *record = weft__fd_record(fd);
    if (record && belongs_elsewhere(loop, record)) {
        return -EBUSY;
    }
    loop->dirty = true;
    struct weft__io_wake wakes[WAKES];
    struct weft__io_done done;
    weft__io_done_init_foreign(&done, wakes, WAKES);
    done.own = &loop->woken;
    int err = weft__fd_close(fd, weft__loop_here(loop), &done);
    weft__io_done_wake_foreign(&done);
    weft__reactor_fd_closed(loop, fd);
    return err;
}

/* --- timers ----------------------------------------------------------------------------------- */

static struct loop_timer *of(weft_loop_timer *timer)
{
    return (struct loop_timer *)(void *)timer;
}

void weft_loop_timer_init(weft_loop_timer *timer, weft_loop *loop, weft_loop_timer_fn fn, void *arg)
{
    WEFT__NONNULL(timer);
    *of(timer) = (struct loop_timer){.loop = loop, .fn = fn, .arg = arg};
    weft__timer_init(&of(timer)->timer, timer_expired);
}

bool weft_loop_timer_set(weft_loop_timer *timer, int64_t deadline)
{
    WEFT__NONNULL(timer);
    bool pending = weft__timer_is_pending(&of(timer)->timer);
    weft__deadline_check(deadline);
    weft__wheel_rearm(&of(timer)->loop->wheel, &of(timer)->timer, deadline);
    return pending;
}

bool weft_loop_timer_cancel(weft_loop_timer *timer)
{
    WEFT__NONNULL(timer);
    return weft__wheel_cancel(&of(timer)->loop->wheel, &of(timer)->timer);
}
