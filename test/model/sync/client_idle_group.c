/* Clients of time/idle_list.c and sync/idle_group.c: touches against ticks, and which waiter gets
 * an expired batch.
 *
 * A period is four nanoseconds here, and a step of it one. In the client of the core, every reading
 * of the clock is a nanosecond later than the one before, whichever thread reads, except for the
 * reading at the end of a touch; a thread that reads later sees what the others did before they
 * read. */
#define FIBERS 3
#include <errno.h>

#include "model/fibers.h"
#include "sync/idle_group.h"

#define PERIOD 4

/* --- the core: never early ---------------------------------------------------------- */

static struct weft__idle_list idle_list;
static struct weft__idle_list_node entry;
static _Atomic(int64_t) ticks;
static int64_t looked; /* the first reading in a tick is the tick's time */
static struct {
    int64_t begin, end;
} touches[2];
static int64_t found; /* the time of the tick that found the member idle; 0: not yet */

static int64_t look_at_clock(void)
{
    int64_t now = atomic_fetch_add_explicit(&ticks, 1, memory_order_acq_rel) + 1;
    looked = looked ? looked : now;
    return now;
}

static void core_setup(void)
{
    fibers_setup();
    atomic_init(&ticks, 0);
    looked = found = 0;
    memset(&entry, 0, sizeof entry);
    memset(touches, 0, sizeof touches);
    X_ASSERT(weft__idle_list_init(&idle_list, PERIOD, PERIOD, 0) == 0);
    weft__idle_list_add(&idle_list, &entry, 0);
    x_name(&idle_list, sizeof idle_list, "idle_list");
    x_name(&entry, sizeof entry, "quiet");
    x_name(&ticks, sizeof ticks, "clock");
}

static void tick(void)
{
    size_t n;
    looked = 0;
    X_ASSERT(!weft__idle_list_tick(&idle_list, look_at_clock, 16));
    if (weft__idle_list_take_expired(&idle_list, &n)) {
        X_ASSERT(n == 1 && found == 0);
        found = looked;
    }
}

static void touch_against_ticks(int i)
{
    if (i == 0) {
        for (int k = 0; k < 4; k++) {
            tick();
        }
    } else {
        for (int k = 0; k < 2; k++) {
            touches[k].begin = atomic_fetch_add_explicit(&ticks, 1, memory_order_acq_rel) + 1;
            weft__idle_list_touch(&idle_list, &entry);
            touches[k].end = atomic_fetch_add_explicit(&ticks, 0, memory_order_acq_rel);
        }
    }
}

/* A touch that was over before the tick came at least a period before it. */
static void never_early(void)
{
    int64_t last = atomic_load_explicit(&ticks, memory_order_relaxed);
    for (int k = 0; k < 20 && !found; k++) {
        tick();
    }
    X_ASSERT(found >= PERIOD);
    for (int k = 0; k < 2; k++) {
        X_ASSERT(found <= touches[k].end || found - touches[k].begin >= PERIOD);
    }
    X_ASSERT(found <= last + 4 * PERIOD + WEFT__IDLE_LIST_STEPS); /* and not much later */
    weft__idle_list_deinit(&idle_list);
    fibers_rest();
}

/* --- the group: which waiter gets the batch -------------------------------------------- */

static union {
    struct weft__idle_group group;
    weft_idle_group storage;
} place;
static union {
    struct weft__idle_list_node entry;
    weft_idle_member storage;
} member;
#define THE_GROUP (&place.storage)
static weft_timer_fn on_tick;
static int batches, removed;

/* The timer: the client calls it. */

void weft_timer_init(weft_timer *timer, weft_timer_fn fn, void *arg,
                     const struct weft_timer_opts *opts)
{
    (void)timer, (void)opts;
    X_ASSERT(arg == &place);
    on_tick = fn;
}

bool weft_timer_set(weft_timer *timer, int64_t deadline)
{
    (void)timer, (void)deadline;
    return false;
}

int weft__timer_cancel_sync(weft_timer *timer)
{
    (void)timer;
    return WEFT_TIMER_IDLE;
}

void weft_timer_deinit(weft_timer *timer)
{
    (void)timer;
}

static void group_setup_with(void (*fn)(weft_idle_group *, weft_idle_member *, size_t, void *))
{
    fibers_setup();
    twin_clock_set(TWIN_NOW);
    batches = removed = 0;
    memset(&place, 0, sizeof place);
    memset(&member, 0, sizeof member);
    const struct weft_idle_opts opts = {.period_ns = PERIOD, .precision_ns = PERIOD, .on_idle = fn};
    X_ASSERT(weft_idle_init(THE_GROUP, &opts) == 0);
    weft_idle_add(THE_GROUP, &member.storage);
    x_name(&place, sizeof place, "group");
    x_name(&member, sizeof member, "member");
}

static void group_setup(void)
{
    group_setup_with(NULL);
}

/* A thread that closes the member's step, and the thread that finds it. */
static void clock_goes_on(void)
{
    twin_clock_set(TWIN_NOW + 1);
    on_tick(&place.group.timer, &place.group, 1);
    twin_clock_set(TWIN_NOW + 1 + PERIOD);
    on_tick(&place.group.timer, &place.group, 1);
}

static void takes_the_batch(void)
{
    weft_idle_member *first = NULL;
    X_ASSERT(weft_idle_wait(THE_GROUP, &first, WEFT_FOREVER) == 1);
    X_ASSERT(first == &member.storage && !weft_idle_next(first));
    batches++;
}

static void wait_against_ticks(int i)
{
    if (i == 0) {
        takes_the_batch();
    } else {
        clock_goes_on();
    }
}

static void one_batch(void)
{
    fibers_rest();
    X_ASSERT(!place.group.source.waiters.first && batches + removed == 1);
    weft_idle_deinit(THE_GROUP);
}

static void nothing_to_do(struct weft__waiter *waiter)
{
    (void)waiter;
}

/* T2 waits, is notified or gives up, and takes nothing: T0 still gets the batch. */
static void leaves_without_taking(int i)
{
    if (i == 0) {
        takes_the_batch();
    } else if (i == 1) {
        clock_goes_on();
    } else {
        struct weft__waiter waiter;
        struct weft__node node;
        weft__waiter_arm_notify(&waiter, nothing_to_do);
        weft__node_init(&node, &waiter, 0);
        if (weft__idle_group_arm(&place.group, &node)) {
            (void)!weft__waiter_disarm(&waiter); /* whichever was first */
            weft__idle_group_finish(&place.group, &node);
        }
    }
}

/* T2 is cancelled before there is a batch, and may be queued before T0. If it comes late it finds
 * the batch, and then T0 is not needed any more. */
static void tick_against_cancel(int i)
{
    weft_idle_member *first;
    if (i == 1) {
        X_ASSERT(weft_cancel(HANDLE(2)) == 0);
        clock_goes_on();
        return;
    }
    ssize_t n = weft_idle_wait(THE_GROUP, &first, WEFT_FOREVER);
    X_ASSERT(n == 1 || n == -ECANCELED);
    if (n == 1) {
        batches++; /* plain: there is a batch */
    }
    if (i == 2 && n == 1) {
        X_ASSERT(weft_cancel(HANDLE(0)) == 0);
    }
}

static void got_it(weft_idle_group *group, weft_idle_member *first, size_t n, void *arg)
{
    (void)arg;
    X_ASSERT(group == THE_GROUP && first == &member.storage && n == 1);
    batches++;
}

static void callback_setup(void)
{
    group_setup_with(got_it);
}

static void remove_against_ticks(int i)
{
    if (i == 0) {
        removed = weft_idle_remove(THE_GROUP, &member.storage);
    } else {
        clock_goes_on();
    }
}

static const struct x_client clients[] = {
    X_CLIENT("wait_against_ticks", 2, group_setup, wait_against_ticks, one_batch, .preemptions = 2),
    X_CLIENT("remove_against_ticks", 2, callback_setup, remove_against_ticks, one_batch,
             .preemptions = 2),
    X_CLIENT("tick_against_cancel", 3, group_setup, tick_against_cancel, one_batch,
             .preemptions = 1, .stale = 1),
    X_CLIENT("leaves_without_taking", 3, group_setup, leaves_without_taking, one_batch,
             .preemptions = 1, .stale = 1),
    X_CLIENT("touch_against_ticks", 2, core_setup, touch_against_ticks, never_early, .stale = 1),
};

X_MAIN(clients)
