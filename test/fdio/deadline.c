/* A deadline means the same in every call that waits: 0 tries once, whatever is pending for the
 * fiber; a duration instead of a time is a bug of the caller. */
/* labels: valgrind */
#include "io/drivers.h"

#include <sys/socket.h>

#include "base/assert.h"
#include "sync/fixture.h"

static weft_event event;
static weft_mutex mutex,
    own; /* mutex: locked by another fiber; own: locked by the fiber that waits on the condition */
static weft_cond cond;
static weft_rwlock rwlock; /* locked by another fiber */
static weft_sem sem;       /* empty */
static weft_barrier barrier;
static weft_waitgroup group;
static weft_oneshot oneshot;
static weft_once once; /* called by another fiber that has not returned */
static weft_future *future;
static weft_chan *chan;
static weft_fiber other;
static int ends[2], listener;

static void *holds(void *arg);

static void setup(void)
{
    memset(&once, 0, sizeof once);
    weft_event_reset(&event);
    weft_sem_init(&sem, 0, NULL);
    weft_barrier_init(&barrier, 2, NULL);
    weft_waitgroup_add(&group, 1);
    CHECK_EQ(weft_future_create(&future, NULL), 0);
    CHECK_EQ(weft_chan_create(&chan, sizeof(int), NULL), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    listener = weft_listen("127.0.0.1:0", NULL);
    CHECK(listener >= 0);
    other = waiting_in(holds, NULL);
}

static void waits_inside(void *arg)
{
    CHECK_EQ(weft_event_wait(arg, WEFT_FOREVER), 0);
}

static void *holds(void *arg)
{
    CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
    CHECK_EQ(weft_rwlock_write(&rwlock, WEFT_FOREVER), 0);
    CHECK_EQ(weft_once_call(&once, waits_inside, &event, WEFT_FOREVER), 0);
    weft_rwlock_write_unlock(&rwlock);
    weft_mutex_unlock(&mutex);
    return arg;
}

static void teardown(void)
{
    weft_event_set(&event);
    CHECK_EQ(weft_join(other, NULL, WEFT_FOREVER), 0);
    weft_waitgroup_done(&group);
    weft_future_cancel(future);
    weft_future_unref(future);
    weft_chan_destroy(chan);
    weft_close(ends[0]);
    weft_close(ends[1]);
    weft_close(listener);
}

static void called(void *arg)
{
    CHECK(!arg);
}

/* Every call that waits; none of them can complete at once. */
static void each(int64_t deadline, int answer)
{
    int item = 0;
    char byte;
    void *value;
    CHECK_EQ(weft_event_wait(&event, deadline), answer);
    CHECK_EQ(weft_mutex_lock(&mutex, deadline), answer);
    CHECK_EQ(weft_mutex_lock(&own, 0), 0);
    CHECK_EQ(weft_cond_wait(&cond, &own, deadline), answer);
    weft_mutex_unlock(&own);
    CHECK_EQ(weft_rwlock_read(&rwlock, deadline), answer);
    CHECK_EQ(weft_rwlock_write(&rwlock, deadline), answer);
    CHECK_EQ(weft_sem_acquire(&sem, 1, deadline), answer);
    CHECK_EQ(weft_barrier_wait(&barrier, deadline), answer);
    CHECK_EQ(weft_waitgroup_wait(&group, deadline), answer);
    CHECK_EQ(weft_oneshot_wait(&oneshot, &value, deadline), answer);
    CHECK_EQ(weft_once_call(&once, called, &once, deadline), answer);
    CHECK_EQ(weft_future_wait(future, deadline), answer);
    CHECK_EQ(weft_future_get(future, &value, deadline), answer);
    CHECK_EQ(weft_chan_send(chan, &item, deadline), answer);
    CHECK_EQ(weft_chan_recv(chan, &item, deadline), answer);
    CHECK_EQ(weft_chan_send_many(chan, &item, 1, deadline), answer);
    CHECK_EQ(weft_chan_recv_many(chan, &item, 1, deadline), answer);
    struct weft_case cases[] = {weft_case_recv(chan, &item), weft_case_event(&event)};
    CHECK_EQ(weft_select(cases, 2, deadline), answer);
    CHECK_EQ(weft_join(other, NULL, deadline), answer);
    CHECK_EQ(weft_fiber_park(deadline), answer);
    CHECK_EQ(weft_sleep(deadline), answer == -ETIMEDOUT ? 0 : answer);
    CHECK_EQ(weft_recv(ends[0], &byte, 1, 0, deadline), answer);
    CHECK_EQ(weft_read(ends[0], &byte, 1, deadline), answer);
    CHECK_EQ(weft_fd_wait(ends[0], WEFT_READABLE, deadline), answer);
    CHECK_EQ(weft_accept(listener, NULL, deadline), answer);
}

static void *tries(void *arg)
{
    setup();
    each(0, -ETIMEDOUT);
    each(weft_now(), -ETIMEDOUT); /* a time in the past */
    CHECK_EQ(weft_fiber_interrupt(weft_self()), 0);
    each(0, -ETIMEDOUT);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), -EINTR); /* the interrupt is not lost */
    teardown();
    return arg;
}

EACH_DRIVER(zero_deadline_tries_once_in_every_call)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, tries, NULL, &opts, WEFT_FOREVER), 0);
}

static void *tries_cancelled(void *arg)
{
    CHECK_EQ(weft_cancel(weft_self()), 0);
    each(0, -ETIMEDOUT);
    each(weft_now(), -ECANCELED); /* a wait, even if a short one */
    each(WEFT_FOREVER, -ECANCELED);
    return arg;
}

static void *cancels(void *arg)
{
    weft_fiber fiber;
    setup();
    CHECK_EQ(weft_spawn(&fiber, tries_cancelled, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    teardown();
    return arg;
}

EACH_DRIVER(zero_deadline_tries_once_in_cancelled_fiber)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, cancels, NULL, &opts, WEFT_FOREVER), 0);
}

/* --- durations -------------------------------------------------------------------------------- */

TEST(duration_macros_yield_nanoseconds)
{
    _Static_assert(WEFT_MS(5) == 5000000, "");
    CHECK_EQ(WEFT_NS(7), 7);
    CHECK_EQ(WEFT_US(7), 7000);
    CHECK_EQ(WEFT_SECONDS(3), INT64_C(3000000000));
    CHECK_EQ(WEFT_MINUTES(1 + 1), INT64_C(120000000000));
    CHECK_EQ(sizeof(WEFT_SECONDS(1)), sizeof(int64_t));
    unsigned short seconds = 60000;
    CHECK_EQ(WEFT_SECONDS(seconds), INT64_C(60000000000000));
    CHECK_EQ(WEFT_MS(-1), -1000000);
}

static weft_timer timer;

static void fires(weft_timer *self, void *arg, uint64_t times)
{
    (void)self, (void)arg, (void)times;
}

static void *waits_for_a_duration(void *arg)
{
    weft_event_wait(&event, WEFT_MS(5));
    return arg;
}

static void *waits_until_less_than_zero(void *arg)
{
    int item;
    weft_chan *c;
    weft_chan_create(&c, sizeof item, NULL);
    weft_chan_recv(c, &item, -1);
    return arg;
}

static void *sleeps_until_a_duration(void *arg)
{
    weft_sleep(WEFT_MS(5));
    return arg;
}

static void *reads_for_a_duration(void *arg)
{
    char byte;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    weft_read(ends[0], &byte, 1, WEFT_MS(5));
    return arg;
}

static void *sets_a_timer_for_a_duration(void *arg)
{
    weft_timer_init(&timer, fires, NULL, NULL);
    weft_timer_set(&timer, WEFT_MS(5));
    return arg;
}

static void *opens_a_scope_for_a_duration(void *arg)
{
    weft_scope scope;
    weft_scope_open(&scope, &(struct weft_scope_opts){.deadline = WEFT_MS(5)});
    return arg;
}

static void waits_on_a_thread(void *arg)
{
    (void)arg;
    weft_event_wait(&event, WEFT_MS(5));
}

TEST(duration_passed_as_deadline_aborts_in_debug_build)
{
    static const char hint[] = "a deadline is 5000000, a time before this program was started, as "
                               "if a duration was passed: use weft_after(5000000)";
    if (!WEFT_DEBUG || weft_now() < WEFT_SECONDS(60)) {
        return; /* not checked, or the machine booted just now */
    }
    weft_event_reset(&event);
    must_stop(waits_on_a_thread, NULL, hint);
    must_stop_in_fiber(waits_for_a_duration, NULL, hint);
    must_stop_in_fiber(sleeps_until_a_duration, NULL, hint);
    must_stop_in_fiber(reads_for_a_duration, NULL, hint);
    must_stop_in_fiber(sets_a_timer_for_a_duration, NULL, hint);
    must_stop_in_fiber(opens_a_scope_for_a_duration, NULL, hint);
    must_stop_in_fiber(
        waits_until_less_than_zero, NULL,
        "a deadline is -1, which is not a time: 0 tries once, WEFT_FOREVER waits for "
        "ever");
}
