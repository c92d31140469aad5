/* A pool's options: defaults, limits, and their effect on the worker threads. */
/* labels: valgrind */
#include <sched.h>
#include <sys/prctl.h>

#include "io/drivers.h"
#include "pool/fixture.h"

static void *end_at_once(void *arg)
{
    return arg;
}

static weft_pool *const untouched = (weft_pool *)(void *)&check_first;

static void check_refused(const struct weft_pool_opts *opts)
{
    weft_pool *pool = untouched;
    CHECK_EQ(weft_pool_create(&pool, opts), -EINVAL);
    CHECK(pool == untouched);
}

static void check_taken(const struct weft_pool_opts *opts)
{
    weft_pool *pool = NULL;
    CHECK_EQ(weft_pool_create(&pool, opts), 0);
    weft_pool_destroy(pool);
}

TEST(default_pool_has_one_worker_per_usable_cpu)
{
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, NULL), 0);
    CHECK_EQ(weft_pool_workers(pool), weft_usable_cpus());
    CHECK_STR(weft_pool_name(pool), "weft");
    weft_pool_destroy(pool);
}

TEST(usable_cpus_never_exceed_affinity_mask)
{
    cpu_set_t set;
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    CHECK(weft_usable_cpus() >= 1);
    CHECK(weft_usable_cpus() <= (unsigned)CPU_COUNT(&set));
}

static int first_allowed_cpu(void)
{
    cpu_set_t set;
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            return cpu;
        }
    }
    CHECK(!"no CPU is allowed");
    return -1;
}

static void on_one_cpu(void *arg)
{
    (void)arg;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(first_allowed_cpu(), &set);
    CHECK_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    CHECK_EQ(weft_usable_cpus(), 1);
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, NULL), 0);
    CHECK_EQ(weft_pool_workers(pool), 1);
    weft_pool_destroy(pool);
}

TEST(process_pinned_to_one_cpu_gets_one_worker)
{
    char err[CHECK_ERR];
    int status = check_child(on_one_cpu, NULL, err, sizeof err);
    if (status != 0) {
        check_fail(__FILE__, __LINE__, "child: %s", err);
    }
}

TEST(more_than_1024_workers_are_rejected)
{
    check_refused(&(struct weft_pool_opts){.workers = 1025});
    check_refused(&(struct weft_pool_opts){.workers = UINT32_MAX});
    check_taken(&(struct weft_pool_opts){.workers = 1024, .ring_slots = 4, .fresh_slots = 4});
}

TEST(pool_name_of_any_length_is_accepted)
{
    static char name[5000];
    memset(name, 'x', sizeof name - 1);
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.name = name, .workers = 1});
    CHECK_STR(weft_pool_name(pool), name);
    name[0] = 'y';
    CHECK_EQ(weft_pool_name(pool)[0], 'x'); /* a copy */
    pool_close(pool);
}

TEST(ring_slots_must_be_power_of_two_from_4_to_65536)
{
    static const unsigned good[] = {4, 8, 256, 65536}, bad[] = {1, 2, 3, 5, 255, 65537, 131072};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        check_taken(&(struct weft_pool_opts){.workers = 1, .ring_slots = good[i]});
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_refused(&(struct weft_pool_opts){.workers = 1, .ring_slots = bad[i]});
    }
}

TEST(fresh_slots_must_be_power_of_two)
{
    static const unsigned good[] = {2, 4, 1024}, bad[] = {1, 3, 6, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        check_taken(&(struct weft_pool_opts){.workers = 1, .fresh_slots = good[i]});
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_refused(&(struct weft_pool_opts){.workers = 1, .fresh_slots = bad[i]});
    }
}

TEST(unknown_fresh_order_is_rejected)
{
    check_refused(&(struct weft_pool_opts){.fresh_order = (enum weft_fresh_order)7});
}

TEST(stack_size_above_largest_class_is_rejected)
{
    check_refused(&(struct weft_pool_opts){.stack_bytes = (size_t)65 << 20});
    check_refused(&(struct weft_pool_opts){.stack_bytes = SIZE_MAX});
    check_taken(&(struct weft_pool_opts){.stack_bytes = (size_t)64 << 20});
}

static void *report_stack(void *arg)
{
    size_t high_water;
    CHECK_EQ(weft_fiber_stack(weft_self(), arg, &high_water), 0);
    return NULL;
}

TEST(fiber_uses_pool_stack_size_unless_overridden)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .stack_bytes = 100 * 1024});
    size_t own = 0, theirs = 0;
    weft_fiber a, b;
    CHECK_EQ(weft_pool_spawn(pool, &a, report_stack, &own, NULL), 0);
    CHECK_EQ(weft_pool_spawn(pool, &b, report_stack, &theirs,
                             &(struct weft_fiber_opts){.stack_bytes = 32 * 1024}),
             0);
    CHECK_EQ(weft_join(a, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(b, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(own, 128 * 1024);
    CHECK_EQ(theirs, 32 * 1024);
    pool_close(pool);
}

/* --- CPUs -------------------------------------------------------------------- */

TEST(cpu_outside_affinity_mask_is_rejected)
{
    cpu_set_t set;
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    int outside = 0;
    while (outside < CPU_SETSIZE && CPU_ISSET(outside, &set)) {
        outside++;
    }
    int inside = first_allowed_cpu();
    check_refused(&(struct weft_pool_opts){.cpus = (int[]){inside, outside}, .cpu_count = 2});
    check_refused(&(struct weft_pool_opts){.cpus = (int[]){-1}, .cpu_count = 1});
    check_refused(&(struct weft_pool_opts){.cpus = (int[]){CPU_SETSIZE}, .cpu_count = 1});
    check_refused(&(struct weft_pool_opts){.cpus = (int[]){INT32_MAX}, .cpu_count = 1});
    check_refused(&(struct weft_pool_opts){.cpus = NULL, .cpu_count = 1});
}

static void *report_mask(void *arg)
{
    CHECK_EQ(sched_getaffinity(0, sizeof(cpu_set_t), arg), 0);
    return NULL;
}

static void check_mask_of_worker(weft_pool *pool, int worker, int cpu)
{
    cpu_set_t mask;
    CHECK_EQ(weft_pool_call(pool, NULL, worker, report_mask, &mask, WEFT_FOREVER), 0);
    CHECK_EQ(CPU_COUNT(&mask), 1);
    CHECK(CPU_ISSET(cpu, &mask));
}

/* The allowed CPUs, not in the order of their numbers. */
static size_t allowed_cpus(int *cpus)
{
    cpu_set_t set;
    size_t n = 0;
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) {
        if (CPU_ISSET(cpu, &set)) {
            cpus[n++] = cpu;
        }
    }
    return n;
}

TEST(each_worker_is_pinned_to_its_cpu_list_entry)
{
    int cpus[CPU_SETSIZE];
    size_t n = allowed_cpus(cpus);
    n = n > 4 ? 4 : n;
    unsigned workers = (unsigned)n + 1; /* the last worker starts the list again */
    weft_pool *pool =
        pool_open(&(struct weft_pool_opts){.workers = workers, .cpus = cpus, .cpu_count = n});
    for (unsigned i = 0; i < workers; i++) {
        check_mask_of_worker(pool, (int)i, cpus[i % n]);
    }
    pool_close(pool);
}

TEST(pool_without_cpu_list_keeps_affinity_mask)
{
    cpu_set_t mine, theirs;
    CHECK_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    CHECK_EQ(weft_pool_call(pool, NULL, 0, report_mask, &theirs, WEFT_FOREVER), 0);
    CHECK(CPU_EQUAL(&mine, &theirs));
    pool_close(pool);
}

TEST(caller_is_pinned_during_run_and_mask_is_restored)
{
    int cpus[CPU_SETSIZE];
    allowed_cpus(cpus);
    cpu_set_t before, inside, after;
    CHECK_EQ(sched_getaffinity(0, sizeof before, &before), 0);
    struct weft_pool_opts opts = {.workers = 1, .cpus = cpus, .cpu_count = 1};
    CHECK_EQ(weft_run(NULL, report_mask, &inside, &opts, WEFT_FOREVER), 0);
    CHECK_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    CHECK_EQ(CPU_COUNT(&inside), 1);
    CHECK(CPU_ISSET(cpus[0], &inside));
    CHECK(CPU_EQUAL(&before, &after));
}

/* --- threads ------------------------------------------------------------------- */

static void *report_thread_name(void *arg)
{
    CHECK_EQ(prctl(PR_GET_NAME, arg, 0, 0, 0), 0);
    return NULL;
}

static void check_thread_name(weft_pool *pool, int worker, const char *want)
{
    char name[17] = "";
    CHECK_EQ(weft_pool_call(pool, NULL, worker, report_thread_name, name, WEFT_FOREVER), 0);
    CHECK_STR(name, want);
}

TEST(worker_threads_are_named_after_pool_and_index)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.name = "ten_bytes_", .workers = 12});
    CHECK_STR(weft_pool_name(pool), "ten_bytes_");
    check_thread_name(pool, 0, "ten_bytes__0");
    check_thread_name(pool, 7, "ten_bytes__7");
    check_thread_name(pool, 11, "ten_bytes__11");
    pool_close(pool);
    pool = pool_open(&(struct weft_pool_opts){.name = "a-name-that-is-long", .workers = 12});
    CHECK_STR(weft_pool_name(pool), "a-name-that-is-long");
    check_thread_name(pool, 0, "a-name-that-i_0");
    check_thread_name(pool, 11, "a-name-that-_11");
    pool_close(pool);
}

TEST(caller_keeps_its_thread_name)
{
    char before[17] = "", inside[17] = "";
    report_thread_name(before);
    CHECK_EQ(weft_run(NULL, report_thread_name, inside,
                      &(struct weft_pool_opts){.name = "other", .workers = 1}, WEFT_FOREVER),
             0);
    CHECK_STR(inside, before);
}

/* --- worker count and order -------------------------------------------------------- */

static void *hold(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return NULL;
}

TEST(max_fibers_limits_live_fibers)
{
    enum { MAX = 5 };
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2, .max_fibers = MAX});
    weft_fiber fibers[MAX], more = WEFT_NO_FIBER;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MAX; i++) {
            CHECK_EQ(weft_pool_spawn(pool, &fibers[i], hold, NULL, NULL), 0);
        }
        CHECK_EQ(weft_pool_spawn(pool, &more, hold, NULL, NULL), -EAGAIN);
        CHECK_EQ(weft_pool_submit(pool, hold, NULL), -EAGAIN);
        CHECK(more == WEFT_NO_FIBER);
        for (int i = 0; i < MAX; i++) {
            CHECK_EQ(weft_fiber_unpark(fibers[i]), 0);
            CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
        }
    }
    pool_close(pool);
}

static void *spawn_one_more(void *arg)
{
    (void)arg;
    weft_fiber child;
    CHECK_EQ(weft_spawn(&child, hold, NULL, NULL), 0);
    CHECK_EQ(weft_spawn(NULL, hold, NULL, NULL), -EAGAIN);
    CHECK_EQ(weft_fiber_unpark(child), 0);
    CHECK_EQ(weft_join(child, NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(max_fibers_limits_spawns_from_fibers)
{
    CHECK_EQ(weft_run(NULL, spawn_one_more, NULL,
                      &(struct weft_pool_opts){.workers = 1, .max_fibers = 2}, WEFT_FOREVER),
             0);
}

struct order {
    int seen[8];
    int count;
};

struct numbered {
    struct order *order;
    int number;
};

static void *note_order(void *arg)
{
    struct numbered *me = arg;
    me->order->seen[me->order->count++] = me->number;
    return NULL;
}

static void *spawn_five(void *arg)
{
    struct numbered children[5];
    weft_fiber fibers[5];
    for (int i = 0; i < 5; i++) {
        children[i] = (struct numbered){arg, i};
        CHECK_EQ(weft_spawn(&fibers[i], note_order, &children[i], NULL), 0);
    }
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    return NULL;
}

TEST(fresh_fibers_start_lifo_by_default_and_fifo_by_option)
{
    struct order lifo = {.count = 0}, fifo = {.count = 0};
    CHECK_EQ(
        weft_run(NULL, spawn_five, &lifo, &(struct weft_pool_opts){.workers = 1}, WEFT_FOREVER), 0);
    CHECK_EQ(weft_run(NULL, spawn_five, &fifo,
                      &(struct weft_pool_opts){.workers = 1, .fresh_order = WEFT_FRESH_FIFO},
                      WEFT_FOREVER),
             0);
    CHECK_EQ(lifo.count, 5);
    CHECK_EQ(fifo.count, 5);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(lifo.seen[i], 4 - i);
        CHECK_EQ(fifo.seen[i], i);
    }
}

/* --- sizes and spinning do not change what happens ------------------------------------ */

static void *yield_some(void *arg)
{
    for (int i = 0; i < 5; i++) {
        weft_yield();
    }
    atomic_fetch_add((atomic_int *)arg, 1);
    return NULL;
}

static void *fan_out(void *arg)
{
    for (int i = 0; i < 200; i++) {
        CHECK_EQ(weft_spawn(NULL, yield_some, arg, NULL), 0);
    }
    return NULL;
}

static void check_work_gets_done(const struct weft_pool_opts *opts)
{
    atomic_int done = 0;
    weft_pool *pool = pool_open(opts);
    CHECK_EQ(weft_pool_submit(pool, fan_out, &done), 0);
    pool_close(pool);
    CHECK_EQ(atomic_load(&done), 200);
}

TEST(smallest_queues_lose_no_fiber)
{
    for (unsigned workers = 1; workers <= 4; workers++) {
        check_work_gets_done(
            &(struct weft_pool_opts){.workers = workers, .ring_slots = 4, .fresh_slots = 2});
        check_work_gets_done(&(struct weft_pool_opts){
            .workers = workers, .ring_slots = 4, .fresh_slots = 2, .fresh_order = WEFT_FRESH_FIFO});
    }
}

TEST(fibers_run_with_spinning_off_and_with_long_spinning)
{
    check_work_gets_done(&(struct weft_pool_opts){.workers = 3, .spin_ns = -1});
    check_work_gets_done(&(struct weft_pool_opts){.workers = 3, .spin_ns = 100000});
}

static void *read_byte(void *in)
{
    char byte = 0;
    CHECK_EQ(weft_sleep(weft_after(1000)), 0);
    CHECK_EQ(weft_read(*(int *)in, &byte, 1, WEFT_FOREVER), 1);
    return NULL;
}

/* The worker still serves timers, descriptors and the stop. */
EACH_DRIVER(worker_that_never_parks_serves_timers_and_descriptors)
{
    int in, out;
    weft_fiber fiber;
    weft_pool *pool = pool_open(
        &(struct weft_pool_opts){.workers = 2, .driver = driver, .spin_ns = WEFT_FOREVER});
    CHECK_EQ(weft_pipe(&in, &out), 0);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, read_byte, &in, NULL), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_write(out, "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_close(in), 0);
    CHECK_EQ(weft_close(out), 0);
    pool_close(pool);
}

/* --- WEFT_DRIVER -------------------------------------------------------------------------- */

static void names_no_driver(void *arg)
{
    weft_loop *loop;
    setenv("WEFT_DRIVER", "foo", 1); /* NOLINT(concurrency-mt-unsafe) */
    check_refused(NULL);
    CHECK_EQ(weft_loop_create(&loop, NULL), -EINVAL);
    CHECK_EQ(weft_run(NULL, end_at_once, NULL, NULL, WEFT_FOREVER), -EINVAL);
    check_taken(&(struct weft_pool_opts){.driver = WEFT_DRIVER_EPOLL}); /* ignored */
    (void)arg;
}

static void names_drivers(void *arg)
{
    const char *names[] = {"", "auto", "epoll", "poll"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        setenv("WEFT_DRIVER", names[i], 1); /* NOLINT(concurrency-mt-unsafe) */
        check_taken(NULL);
    }
    (void)arg;
}

TEST(unknown_driver_in_environment_is_rejected_with_list)
{
    static const char line[] = "weft: WEFT_DRIVER=foo names no driver: set it to auto, epoll, "
                               "uring or poll, or unset it\n";
    char err[CHECK_ERR];
    CHECK_EQ(check_child(names_no_driver, NULL, err, sizeof err), 0);
    const char *at = err;
    for (int i = 0; i < 3; i++) {
        CHECK((at = strstr(at, line)));
        at += sizeof line - 1;
    }
    CHECK_STR(at, "");
    CHECK_EQ(check_child(names_drivers, NULL, err, sizeof err), 0);
    CHECK_STR(err, "");
}
