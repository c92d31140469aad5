/* Clients of idle/idle.h: submit against sleep, for each kind of queue that a submit publishes in.
 *
 * A worker here does what a pool's worker does around its queues: it checks them, searches if no
 * other worker searches, enters the word, checks once more, parks, leaves. Sleeps have no deadline,
 * so a lost wake-up is a deadlock. The worker that receives the last item tells all to leave. */
#include "idle/idle.h"
#include "model/explore.h"
#include "model/items.h"
#include "model/twins.h"
#include "queue/fresh.h"
#include "queue/global.h"
#include "queue/ring.h"

#define WORKERS 2

static struct weft__idle idle;
static struct weft__sleeper sleepers[WORKERS];
static struct weft__global global;
static struct weft__ring ring, mine[WORKERS];
static struct weft__fresh fresh;
static _Atomic(uint32_t) received, leaving;
static uint32_t expected_items;
static bool together; /* an item is not done before all are received */
static struct weft__link *(*take)(int worker);
static bool (*anything_left)(void);

/* ---- the kinds of queues ---- */

static struct weft__link *take_global(int worker)
{
    (void)worker;
    struct weft__link *out;
    return weft__global_take(&global, 1, &out) ? out : NULL;
}

static bool left_global(void)
{
    return weft__global_length(&global) > 0;
}

static void submit_global(int number)
{
    weft__global_push(&global, item_make(number));
    weft__idle_notify(&idle);
}

static struct weft__link *take_fresh(int worker)
{
    (void)worker;
    bool lost;
    struct weft__link *link;
    do {
        link = weft__fresh_take_oldest(&fresh, &lost);
    } while (lost);
    return link;
}

static bool left_fresh(void)
{
    return weft__fresh_length(&fresh) > 0;
}

static void submit_fresh(int number)
{
    X_ASSERT(weft__fresh_push_local(&fresh, item_make(number)) == 0);
    weft__idle_notify(&idle);
}

static struct weft__link *take_ring(int worker)
{
    uint64_t taken;
    struct weft__link *link = weft__ring_pop_local(&mine[worker]);
    return link ? link : weft__ring_steal(&ring, &mine[worker], &taken);
}

static bool left_ring(void)
{
    return weft__ring_length(&ring) > 0;
}

static void submit_ring(int number)
{
    X_ASSERT(weft__ring_push_local(&ring, item_make(number), memory_order_seq_cst));
    weft__idle_notify(&idle);
}

/* ---- a worker ---- */

static bool told_to_leave(void)
{
    return atomic_load_explicit(&leaving, memory_order_acquire) != 0;
}

static void run(struct weft__link *link)
{
    item_take(link);
    if (atomic_fetch_add_explicit(&received, 1, memory_order_acq_rel) + 1 == expected_items) {
        atomic_store_explicit(&leaving, 1, memory_order_seq_cst);
        for (int i = 0; i < WORKERS; i++) {
            weft__parker_wake(&sleepers[i].parker);
        }
    }
    while (together && atomic_load_explicit(&received, memory_order_acquire) < expected_items) {
        x_spin();
    }
}

static void park(struct weft__sleeper *sleeper)
{
    if (!sleeper->host) {
        weft__parker_park(&sleeper->parker, INT64_MAX);
    } else if (weft__parker_enter_host(&sleeper->parker, TWIN_EVENT_FD)) {
        twin_event_read();
        weft__parker_leave_host(&sleeper->parker);
    }
}

/* A searcher that gave up and then found something searches again: submitters that saw it search
 * woke no worker, and for the items that it leaves it must wake the next worker. */
static bool sleep_once(struct weft__sleeper *sleeper, bool searching)
{
    weft__idle_enter(&idle, sleeper, searching);
    bool found = anything_left();
    if (!found && !atomic_load_explicit(&leaving, memory_order_seq_cst)) {
        park(sleeper);
    }
    return weft__idle_leave(&idle, sleeper) || (found && searching && weft__idle_try_search(&idle));
}

static struct weft__link *find_work(int worker)
{
    bool searching = false;
    for (;;) {
        struct weft__link *link = take(worker);
        if (!link && !told_to_leave()) {
            searching = searching || (!sleepers[worker].host && weft__idle_try_search(&idle));
            link = searching ? take(worker) : NULL;
        }
        if (link || told_to_leave()) {
            if (searching) {
                weft__idle_end_search(&idle);
            }
            return link;
        }
        searching = sleep_once(&sleepers[worker], searching);
    }
}

static void work(int worker)
{
    struct weft__link *link;
    while ((link = find_work(worker)) != NULL) {
        run(link);
    }
}

/* ---- set-up and check ---- */

static void setup(void)
{
    items_reset();
    twin_event_reset();
    weft__idle_init(&idle);
    weft__global_init(&global);
    X_ASSERT(weft__ring_init(&ring, 4, 0) == 0);
    X_ASSERT(weft__fresh_init(&fresh, 4, 0) == 0);
    for (int i = 0; i < WORKERS; i++) {
        sleepers[i] = (struct weft__sleeper){.host = false};
        weft__parker_init(&sleepers[i].parker);
        X_ASSERT(weft__ring_init(&mine[i], 4, 0) == 0);
    }
    atomic_init(&received, 0);
    atomic_init(&leaving, 0);
    together = false;
    take = take_global;
    anything_left = left_global;
    x_name(&idle, sizeof idle, "idle");
    x_name(&sleepers[0], sizeof sleepers[0], "sleeper0");
    x_name(&sleepers[1], sizeof sleepers[1], "sleeper1");
    x_name(&global, sizeof global, "global");
    x_name(&ring, sizeof ring, "ring");
    x_name(&fresh, sizeof fresh, "fresh");
    expected_items = 1;
}

static void setup_two(void)
{
    setup();
    expected_items = 2;
}

static void setup_together(void)
{
    setup_two();
    together = true;
}

static void setup_host(void)
{
    setup();
    sleepers[0].host = true;
}

static void setup_fresh(void)
{
    setup();
    take = take_fresh;
    anything_left = left_fresh;
}

static void setup_ring(void)
{
    setup();
    take = take_ring;
    anything_left = left_ring;
}

static void setup_fresh_together(void)
{
    setup_fresh();
    expected_items = 2;
    together = true;
}

static void check(void)
{
    items_check((int)expected_items);
    X_ASSERT(!idle.top);
    X_ASSERT(idle.word == 0); /* no worker searches, none sleeps */
    weft__ring_deinit(&ring);
    weft__fresh_deinit(&fresh);
    for (int i = 0; i < WORKERS; i++) {
        weft__ring_deinit(&mine[i]);
    }
}

/* ---- the clients: workers first, the last thread submits ---- */

static void one_worker(int i)
{
    if (i == 0) {
        work(0);
    } else {
        submit_global(0);
    }
}

static void one_worker_fresh(int i)
{
    if (i == 0) {
        work(0);
    } else {
        submit_fresh(0);
    }
}

static void one_worker_ring(int i)
{
    if (i == 0) {
        work(0);
    } else {
        submit_ring(0);
    }
}

static void one_worker_two_items(int i)
{
    if (i == 0) {
        work(0);
    } else {
        submit_global(0);
        submit_global(1);
    }
}

static void two_submitters(int i)
{
    if (i == 0) {
        work(0);
    } else {
        submit_global(i - 1);
    }
}

static void two_workers(int i)
{
    if (i < WORKERS) {
        work(i);
    } else {
        submit_global(0);
    }
}

/* Both items need a separate worker: a worker that is woken must wake the other if necessary. */
static void both_must_wake(int i)
{
    if (i < WORKERS) {
        work(i);
    } else {
        submit_global(0);
        submit_global(1);
    }
}

static void both_must_wake_fresh(int i)
{
    if (i < WORKERS) {
        work(i);
    } else {
        submit_fresh(0);
        submit_fresh(1);
    }
}

static const struct x_client clients[] = {
    X_CLIENT("park_against_submit", 2, setup, one_worker, check),
    X_CLIENT("park_against_submit_fresh", 2, setup_fresh, one_worker_fresh, check),
    X_CLIENT("park_against_submit_ring", 2, setup_ring, one_worker_ring, check),
    X_CLIENT("host_against_submit", 2, setup_host, one_worker, check),
    X_CLIENT("one_worker_two_items", 2, setup_two, one_worker_two_items, check, .preemptions = 3,
             .stale = 2),
    X_CLIENT("both_must_wake_fresh", 3, setup_fresh_together, both_must_wake_fresh, check,
             .preemptions = 2, .stale = 1),
    X_CLIENT("two_workers", 3, setup, two_workers, check, .preemptions = 2, .stale = 1),
    X_CLIENT("two_submitters", 3, setup_two, two_submitters, check, .preemptions = 2, .stale = 1),
    X_CLIENT("both_must_wake", 3, setup_together, both_must_wake, check, .preemptions = 2,
             .stale = 1),
    X_CLIENT("both_must_wake_sampled", 3, setup_together, both_must_wake, check, .samples = 50000),
};

X_MAIN(clients)
