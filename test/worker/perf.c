/* Perf events: which callbacks get which events, and when they stop. */
#include <weft/perf.h>

#include "pool/fixture.h"
#include "worker/perf.h"

#define MS INT64_C(1000000)

static atomic_ulong told[WEFT_PERF_TYPES], counts[WEFT_PERF_TYPES], costs[WEFT_PERF_TYPES];
static atomic_ulong sums[WEFT_PERF_TYPES];
static _Atomic(uint64_t) wanted; /* bit per type */

static bool accepts(unsigned type, void *arg)
{
    CHECK(arg == &wanted);
    return atomic_load(&wanted) >> type & 1;
}

static void on_event(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum, weft_pool *pool,
                     void *arg)
{
    CHECK(pool == weft_pool_self() || type < WEFT_PERF_USER);
    CHECK(arg == &wanted);
    CHECK(atomic_load(&wanted) >> type & 1);
    CHECK(cost_ns >= 0);
    atomic_fetch_add(&told[type], 1);
    atomic_fetch_add(&costs[type], (unsigned long)cost_ns);
    atomic_fetch_add(&counts[type], count);
    atomic_fetch_add(&sums[type], sum);
}

static const struct weft_perf perf = {.accept = accepts, .on_event = on_event, .arg = &wanted};

static void begin(uint64_t types)
{
    for (unsigned i = 0; i < WEFT_PERF_TYPES; i++) {
        atomic_store(&told[i], 0);
        atomic_store(&counts[i], 0);
        atomic_store(&costs[i], 0);
        atomic_store(&sums[i], 0);
    }
    atomic_store(&wanted, types);
    CHECK_EQ(weft_perf_install(&perf), 0);
}

static void end(void)
{
    CHECK_EQ(weft_perf_remove(&perf), 0);
    atomic_store(&wanted, 0); /* on_event fails the test from now on */
}

#define BIT(type) (UINT64_C(1) << (type))

static void *sleep_a_little(void *arg)
{
    CHECK_EQ(weft_sleep(weft_after(2 * MS)), 0);
    return arg;
}

/* --- callbacks -------------------------------------------------------------------- */

TEST(perf_callback_is_installed_once)
{
    struct weft_perf other = perf, none = {0};
    CHECK_EQ(weft_perf_install(&none), -EINVAL);
    begin(0);
    CHECK_EQ(weft_perf_install(&perf), -EBUSY);
    CHECK_EQ(weft_perf_remove(&other), -ENOENT);
    end();
    CHECK_EQ(weft_perf_remove(&perf), -ENOENT);
    CHECK_EQ(weft_perf_remove(NULL), -ENOENT);
    CHECK_EQ(weft_perf_install(&other), 0);
    CHECK_EQ(weft_perf_remove(&other), 0);
}

/* One of several callbacks: the types it wants, and the events it got. */
struct listener {
    struct weft_perf perf;
    uint64_t types;
    atomic_ulong told;
    weft_pool *from; /* of the last event */
};

static bool listener_accepts(unsigned type, void *arg)
{
    const struct listener *listener = arg;
    return listener->types >> type & 1;
}

static void listener_hears(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum,
                           weft_pool *pool, void *arg)
{
    struct listener *listener = arg;
    (void)cost_ns, (void)count, (void)sum;
    CHECK(listener->types >> type & 1);
    CHECK(!listener->perf.pool || listener->perf.pool == pool);
    listener->from = pool;
    atomic_fetch_add(&listener->told, 1);
}

static void listen_for(struct listener *listener, uint64_t types, weft_pool *pool)
{
    *listener = (struct listener){.types = types};
    listener->perf = (struct weft_perf){
        .accept = listener_accepts, .on_event = listener_hears, .arg = listener, .pool = pool};
    CHECK_EQ(weft_perf_install(&listener->perf), 0);
}

TEST(each_perf_callback_gets_only_accepted_types)
{
    unsigned a = (unsigned)weft_perf_register("encode"), b = (unsigned)weft_perf_register("decode");
    struct listener both, first, second;
    listen_for(&first, BIT(a), NULL);
    listen_for(&both, BIT(a) | BIT(b), NULL);
    listen_for(&second, BIT(b), NULL);
    weft_perf_event(a, 1, 1, 1);
    CHECK_EQ(weft_perf_remove(&first.perf), 0);
    weft_perf_event(a, 1, 1, 1); /* the other callbacks still get their events */
    weft_perf_event(b, 1, 1, 1);
    CHECK_EQ(weft_perf_remove(&both.perf), 0);
    CHECK_EQ(weft_perf_begin(a), 0); /* no callback is left for it */
    CHECK(weft_perf_begin(b) > 0);
    weft_perf_event(b, 1, 1, 1);
    CHECK_EQ(weft_perf_remove(&second.perf), 0);
    CHECK_EQ(weft_perf_begin(b), 0);
    CHECK_EQ(first.told, 1);
    CHECK_EQ(both.told, 3);
    CHECK_EQ(second.told, 2);
}

TEST(perf_callback_slots_are_limited_and_reusable)
{
    static struct listener listeners[WEFT_PERF_CALLBACKS + 1];
    for (int i = 0; i < WEFT_PERF_CALLBACKS; i++) {
        listen_for(&listeners[i], 0, NULL);
    }
    struct weft_perf *last = &listeners[WEFT_PERF_CALLBACKS].perf;
    *last = (struct weft_perf){.on_event = listener_hears};
    CHECK_EQ(weft_perf_install(last), -ENOSPC);
    CHECK_EQ(weft_perf_remove(&listeners[3].perf), 0);
    last->accept = listener_accepts;
    last->arg = &listeners[WEFT_PERF_CALLBACKS];
    CHECK_EQ(weft_perf_install(last), 0);
    for (int i = 0; i <= WEFT_PERF_CALLBACKS; i++) {
        CHECK_EQ(weft_perf_remove(&listeners[i].perf), i == 3 ? -ENOENT : 0);
    }
}

static void *tells_once(void *arg)
{
    weft_perf_event((unsigned)(uintptr_t)arg, 1, 1, 1);
    return NULL;
}

TEST(perf_event_names_its_pool)
{
    unsigned type = (unsigned)weft_perf_register("encode");
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 1});
    struct listener all, of_a;
    listen_for(&all, BIT(type), NULL);
    listen_for(&of_a, BIT(type), a);
    void *arg = (void *)(uintptr_t)type;
    CHECK_EQ(weft_pool_call(a, NULL, 0, tells_once, arg, WEFT_FOREVER), 0);
    CHECK(all.from == a && of_a.from == a);
    CHECK_EQ(weft_pool_call(b, NULL, 0, tells_once, arg, WEFT_FOREVER), 0);
    CHECK(all.from == b);
    tells_once(arg);
    CHECK(all.from == NULL); /* a plain thread */
    CHECK_EQ(weft_perf_remove(&all.perf), 0);
    CHECK_EQ(weft_perf_remove(&of_a.perf), 0);
    CHECK_EQ(all.told, 3);
    CHECK_EQ(of_a.told, 1);
    pool_close(a);
    pool_close(b);
}

/* Events of the runtime itself, from two pools that sleep and work. */
TEST(runtime_perf_events_reach_callback_of_their_pool)
{
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 1});
    struct listener of_a, of_b;
    listen_for(&of_a, 15, a); /* listener_hears checks the pool */
    listen_for(&of_b, 15, b);
    while (!atomic_load(&of_a.told) || !atomic_load(&of_b.told)) {
        CHECK_EQ(weft_pool_call(a, NULL, 0, sleep_a_little, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_pool_call(b, NULL, 0, sleep_a_little, NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_perf_remove(&of_a.perf), 0);
    CHECK_EQ(weft_perf_remove(&of_b.perf), 0);
    pool_close(a);
    pool_close(b);
}

TEST(perf_spans_of_accepted_types_only_are_reported)
{
    int a = weft_perf_register("encode"), b = weft_perf_register("decode");
    CHECK(a >= WEFT_PERF_USER && b > a);
    CHECK_EQ(weft_perf_register("encode"), a);
    CHECK_STR(weft__perf_name((unsigned)a), "encode");
    CHECK_EQ(weft_perf_begin((unsigned)a), 0); /* no callback is installed */
    begin(BIT(a));
    int64_t began = weft_perf_begin((unsigned)a);
    CHECK(began > 0);
    CHECK_EQ(weft_perf_begin((unsigned)b), 0);
    weft_perf_end((unsigned)a, began, 3, 1000);
    weft_perf_end((unsigned)b, 0, 1, 1);
    weft_perf_end((unsigned)b, INT64_MIN, 1, 1); /* not the start time of anything */
    weft_perf_event((unsigned)a, 77, 1, 10);
    weft_perf_event((unsigned)b, 77, 1, 10);
    weft_perf_event(1000, 1, 1, 1);
    end();
    weft_perf_end((unsigned)a, began, 1, 1); /* too late */
    CHECK_EQ(told[a], 2);
    CHECK_EQ(counts[a], 4);
    CHECK_EQ(sums[a], 1010);
    CHECK(costs[a] >= 77);
    CHECK_EQ(told[b], 0);
}

TEST(perf_type_registered_later_is_offered_to_callback)
{
    begin(UINT64_MAX);
    int late = weft_perf_register("late");
    CHECK(late > 0);
    weft_perf_event((unsigned)late, 5, 1, 0);
    end();
    CHECK_EQ(told[late], 1);
}

TEST(perf_names_are_checked_and_types_are_limited)
{
    char name[24];
    CHECK_EQ(weft_perf_register(NULL), -EINVAL);
    CHECK_EQ(weft_perf_register(""), -EINVAL);
    CHECK_EQ(weft_perf_register("two words"), -EINVAL);
    static const char any[] =
        "a-name-may-have-any-length-and-is-never-cut-since-it-is-what-finds-it";
    int type = weft_perf_register(any);
    CHECK_STR(weft__perf_name((unsigned)type), any);
    CHECK_EQ(weft_perf_register(any), type);
    CHECK_EQ(weft_perf_register("work"), WEFT_PERF_WORK);
    CHECK(!weft__perf_name(WEFT_PERF_ACQUIRE + 1));
    int last = 0;
    for (int i = 0; last >= 0; i++) {
        snprintf(name, sizeof name, "fill-%d", i);
        last = weft_perf_register(name);
        CHECK(i <= WEFT_PERF_TYPES);
    }
    CHECK_EQ(last, -ENOSPC);
    CHECK(weft__perf_name(WEFT_PERF_TYPES - 1));
    CHECK(!weft__perf_name(WEFT_PERF_TYPES));
    CHECK_EQ(weft_perf_register("encode") >= 0, 1); /* an already registered name is still found */
}

/* --- events of the runtime ----------------------------------------------------------- */

/* On a loaded machine a worker may be so late that it need not sleep at all. */
static void *sleep_until_told(void *arg)
{
    while (atomic_load(&told[WEFT_PERF_POLL]) == 0) {
        sleep_a_little(NULL);
    }
    return arg;
}

TEST(perf_reports_worker_sleep_and_work_spans)
{
    begin(BIT(WEFT_PERF_POLL) | BIT(WEFT_PERF_WORK));
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    CHECK_EQ(weft_pool_call(pool, NULL, 0, sleep_until_told, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
    end();
    CHECK(costs[WEFT_PERF_POLL] > 0);
    CHECK_EQ(counts[WEFT_PERF_POLL], told[WEFT_PERF_POLL]);
    CHECK(told[WEFT_PERF_WORK] >= 1);
    CHECK(counts[WEFT_PERF_WORK] >= 1);
    CHECK_EQ(told[WEFT_PERF_QUEUE], 0);
    CHECK_EQ(told[WEFT_PERF_ACQUIRE], 0);
}

static void *yield_for_long(void *arg)
{
    while (atomic_load(&told[WEFT_PERF_WORK]) < 2) { /* although the worker never sleeps */
        weft_yield();
    }
    return arg;
}

static void *two_yield_for_long(void *arg)
{
    weft_fiber other;
    CHECK_EQ(weft_spawn(&other, yield_for_long, NULL, NULL), 0);
    yield_for_long(NULL);
    CHECK_EQ(weft_join(other, NULL, WEFT_FOREVER), 0);
    return arg;
}

TEST(perf_reports_endless_work_in_pieces)
{
    begin(BIT(WEFT_PERF_WORK));
    run_in_fiber(1, two_yield_for_long, NULL);
    end();
    CHECK(costs[WEFT_PERF_WORK] >= 20 * (unsigned long)MS);
    CHECK(counts[WEFT_PERF_WORK] > 2);
}

static void *empty(void *arg)
{
    return arg;
}

#define FIBERS 40

static void *spawn_and_spend(void *arg)
{
    weft_fiber fibers[FIBERS];
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], empty, NULL, NULL), 0);
    }
    int64_t until = weft_after(MS);
    while (weft_now() < until) {
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    return arg;
}

TEST(perf_reports_ready_delay_of_fibers)
{
    begin(BIT(WEFT_PERF_QUEUE));
    run_in_fiber(1, spawn_and_spend, NULL);
    end();
    CHECK(told[WEFT_PERF_QUEUE] >= FIBERS / 2); /* sampled */
    CHECK(costs[WEFT_PERF_QUEUE] >= FIBERS / 4 * (unsigned long)MS);
}

TEST(perf_reports_ready_delay_of_fibers_from_outside)
{
    begin(BIT(WEFT_PERF_QUEUE));
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_pool_spawn(pool, NULL, empty, NULL, NULL), 0);
    }
    pool_close(pool);
    end();
    CHECK(told[WEFT_PERF_QUEUE] >= 1);
    CHECK(told[WEFT_PERF_QUEUE] <= FIBERS);
}

TEST(perf_reports_waits_of_fibers_and_threads)
{
    weft_event event;
    for (int tries = 1;;
         tries++) { /* a worker that starts its wait late waits for a shorter time or not at all */
        begin(BIT(WEFT_PERF_ACQUIRE));
        run_in_fiber(1, sleep_a_little, NULL);
        CHECK(told[WEFT_PERF_ACQUIRE] <= 1);
        if (told[WEFT_PERF_ACQUIRE] == 1 && costs[WEFT_PERF_ACQUIRE] >= 2 * (unsigned long)MS) {
            break;
        }
        CHECK(tries < 1000);
        end();
    }
    weft_event_init(&event, NULL);
    do { /* the fiber need not wait if it is too late */
        CHECK_EQ(weft_event_wait(&event, weft_after(MS)), -ETIMEDOUT);
    } while (told[WEFT_PERF_ACQUIRE] == 1);
    CHECK_EQ(told[WEFT_PERF_ACQUIRE], 2);
    weft_event_set(&event);
    CHECK_EQ(weft_event_wait(&event, WEFT_FOREVER), 0); /* at once: no wait */
    CHECK_EQ(told[WEFT_PERF_ACQUIRE], 2);
    end();
}

/* --- concurrent removal ----------------------------------------------------------------- */

static void *do_a_bit_of_all(void *arg)
{
    const atomic_bool *stop = arg;
    unsigned type = (unsigned)weft_perf_register("encode");
    while (!atomic_load(stop)) {
        int64_t began = weft_perf_begin(type);
        weft_fiber child;
        if (weft_pool_self()) {
            CHECK_EQ(weft_spawn(&child, empty, NULL, NULL), 0);
            CHECK_EQ(weft_join(child, NULL, WEFT_FOREVER), 0);
        }
        weft_perf_end(type, began, 1, 1);
        weft_yield();
    }
    return NULL;
}

TEST(removed_perf_callback_is_not_called)
{
    atomic_bool stop = false;
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_pool_spawn(pool, NULL, do_a_bit_of_all, &stop, NULL), 0);
    }
    pthread_t thread = thread_open(do_a_bit_of_all, &stop);
    for (long i = check_scale(100); i > 0; i--) {
        begin(i % 3 ? UINT64_MAX : BIT(WEFT_PERF_QUEUE)); /* on_event checks the accepted types */
        weft_yield();
        end();
    }
    begin(UINT64_MAX);
    while (atomic_load(&told[weft_perf_register("encode")]) == 0 ||
           atomic_load(&told[WEFT_PERF_QUEUE]) == 0) {
        weft_yield();
    }
    end();
    atomic_store(&stop, true);
    thread_close(thread);
    pool_close(pool);
}
