/* The table that galay publishes for its compute schedulers, over a weft_pool_set: empty, light and
 * heavy tasks on 1 to 10 single-thread schedulers, the latency of a single submitted task, and 5 s
 * of light tasks. One plain thread submits all tasks, round robin.
 *
 * The heavy tasks also run in a bare loop without a scheduler, interleaved with those on one
 * scheduler: that is the limit of galay_heavy_1. The limit of the latencies is a bare thread that
 * sleeps on a futex, woken by the same thread, with the same semaphore for the return direction.
 * galay_latency_spin is the latency while the scheduler's thread has not gone to sleep yet.
 */
#include "program.h"

#include <linux/futex.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SAMPLES = 5, WARM_UP = 1000, LATENCIES = 10000, SUSTAINED_S = 5, MAX_PENDING = 10000 };

static atomic_long left;
static sem_t all_done;

static void *empty(void *arg)
{
    if (atomic_fetch_sub_explicit(&left, 1, memory_order_acq_rel) == 1)
        sem_post(&all_done);
    return arg;
}

static void *light(void *arg)
{
    volatile int sum = 0;
    for (int i = 0; i < 100; i++)
        sum += i;
    return empty(arg);
}

static void *heavy(void *arg)
{
    volatile double sum = 0;
    for (int i = 0; i < 1000; i++)
        sum += sin(i) * cos(i);
    return empty(arg);
}

static const struct load {
    const char *name;
    weft_fn task;
    int tasks;
    const char *unit;
    double per_unit;
} loads[] = {
    {"empty", empty, 100000, "Mtask/s", 1e6},
    {"light", light, 100000, "Mtask/s", 1e6},
    {"heavy", heavy, 5000, "ktask/s", 1e3},
};

static weft_pool_set *start_pool_set(unsigned members)
{
    weft_pool_set *pools;
    must(weft_pool_set_create(&pools, &(struct weft_pool_set_opts){.members = members}),
         "weft_pool_set_create");
    must(weft_pool_set_start(pools), "weft_pool_set_start");
    return pools;
}

static void stop_pool_set(weft_pool_set *pools)
{
    must(weft_pool_set_stop(pools, WEFT_STOP_DRAIN, WEFT_FOREVER), "weft_pool_set_stop");
    weft_pool_set_destroy(pools);
}

/* Tasks per second, from the first submit to the end of the last task. */
static double through_pool_set(weft_pool_set *pools, weft_fn task, int tasks)
{
    atomic_store(&left, tasks);
    uint64_t start = now_ns();
    for (int i = 0; i < tasks; i++)
        must(weft_pool_set_submit(pools, task, NULL), "weft_pool_set_submit");
    sem_wait(&all_done);
    return tasks * 1e9 / ns_since(start);
}

static double in_bare_loop(weft_fn task, int tasks)
{
    atomic_store(&left, tasks);
    uint64_t start = now_ns();
    for (int i = 0; i < tasks; i++)
        task(NULL);
    sem_wait(&all_done);
    return tasks * 1e9 / ns_since(start);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *samples)
{
    qsort(samples, SAMPLES, sizeof *samples, by_size);
    return samples[SAMPLES / 2];
}

static void measure_throughput(weft_pool_set *pools, unsigned members, const struct load *load)
{
    double scheduled[SAMPLES], bare[SAMPLES];
    bool with_bare = members == 1 && load->task == heavy;
    for (int i = 0; i < SAMPLES; i++) {
        scheduled[i] = through_pool_set(pools, load->task, load->tasks);
        if (with_bare)
            bare[i] = in_bare_loop(load->task, load->tasks);
    }
    char row[32];
    snprintf(row, sizeof row, "galay_%s_%u", load->name, members);
    if (members == 1 && load->task == empty)
        strcpy(row, "galay"); /* the row that has a target */
    report("weft", row, "", median(scheduled) / load->per_unit, load->unit);
    if (with_bare)
        report("limit", row, "", median(bare) / load->per_unit, load->unit);
}

static uint64_t submitted, latency[LATENCIES];

static void *note_latency(void *slot)
{
    *(uint64_t *)slot = now_ns() - submitted;
    return empty(NULL);
}

static void measure_latency(weft_pool_set *pools, unsigned members)
{
    double sum = 0;
    char suffix[16];
    for (int i = 0; i < LATENCIES; i++) {
        atomic_store(&left, 1);
        submitted = now_ns();
        must(weft_pool_set_submit(pools, note_latency, &latency[i]), "weft_pool_set_submit");
        sem_wait(&all_done);
        sum += (double)latency[i];
    }
    qsort(latency, LATENCIES, sizeof *latency, by_value);
    snprintf(suffix, sizeof suffix, "_%u", members);
    report("weft", "galay_latency_mean", suffix, sum / LATENCIES / 1e3, "us");
    report("weft", "galay_latency_p50", suffix, (double)latency[LATENCIES / 2] / 1e3, "us");
    report("weft", "galay_latency_p99", suffix, (double)latency[LATENCIES * 99 / 100] / 1e3, "us");
}

/* The next task comes while the member still looks for one: neither thread sleeps. */
static void measure_spinning(void)
{
    weft_pool_set *pools = start_pool_set(1);
    double sum = 0;
    for (int i = -WARM_UP; i < LATENCIES; i++) {
        atomic_store(&left, 1);
        submitted = now_ns();
        must(weft_pool_set_submit(pools, note_latency, &latency[i < 0 ? 0 : i]),
             "weft_pool_set_submit");
        while (atomic_load_explicit(&left, memory_order_acquire))
            ;
        sem_wait(&all_done);
        sum += i < 0 ? 0 : (double)latency[i];
    }
    qsort(latency, LATENCIES, sizeof *latency, by_value);
    report("weft", "galay_latency_spin", "", sum / LATENCIES / 1e3, "us");
    report("weft", "galay_latency_spin_p50", "", (double)latency[LATENCIES / 2] / 1e3, "us");
    stop_pool_set(pools);
}

/* The floor of the latencies: a thread and a futex. */
static _Atomic(uint32_t) bell;
static atomic_bool over;

static void *sleep_on_futex(void *arg)
{
    uint32_t seen = 0;
    while (!atomic_load(&over)) {
        while (atomic_load(&bell) == seen && !atomic_load(&over))
            syscall(SYS_futex, &bell, FUTEX_WAIT_PRIVATE, seen, NULL);
        if (atomic_load(&over))
            break;
        seen = atomic_load(&bell);
        note_latency(&latency[seen - 1]);
    }
    return arg;
}

static void measure_floor(void)
{
    pthread_t thread;
    double sum = 0;
    must(-pthread_create(&thread, NULL, sleep_on_futex, NULL), "pthread_create");
    for (int i = 0; i < LATENCIES; i++) {
        atomic_store(&left, 1);
        submitted = now_ns();
        atomic_fetch_add(&bell, 1);
        syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, 1);
        sem_wait(&all_done);
        sum += (double)latency[i];
    }
    atomic_store(&over, true);
    atomic_fetch_add(&bell, 1);
    syscall(SYS_futex, &bell, FUTEX_WAKE_PRIVATE, 1);
    pthread_join(thread, NULL);
    report("limit", "galay_latency_mean", "_10", sum / LATENCIES / 1e3, "us");
}

/* One scheduler per CPU, as in galay's benchmark; the producer waits while MAX_PENDING tasks are
 * queued. */
static void measure_sustained(void)
{
    weft_pool_set *pools = start_pool_set(weft_usable_cpus());
    const long many = 1L << 60; /* never counts down to zero */
    long posted = 0;
    atomic_store(&left, many);
    uint64_t start = now_ns();
    while (ns_since(start) < SUSTAINED_S * 1e9) {
        while (posted - (many - atomic_load(&left)) >= MAX_PENDING)
            sched_yield();
        for (int i = 0; i < 100; i++, posted++)
            must(weft_pool_set_submit(pools, light, NULL), "weft_pool_set_submit");
    }
    report("weft", "galay_sustained", "",
           (double)(many - atomic_load(&left)) * 1e3 / ns_since(start), "Mtask/s");
    stop_pool_set(pools);
}

int main(void)
{
    static const unsigned members[] = {1, 2, 4, 8, 10};
    sem_init(&all_done, 0, 0);
    for (size_t m = 0; m < sizeof members / sizeof *members; m++) {
        weft_pool_set *pools = start_pool_set(members[m]);
        through_pool_set(pools, empty, WARM_UP);
        for (size_t l = 0; l < sizeof loads / sizeof *loads; l++)
            measure_throughput(pools, members[m], &loads[l]);
        measure_latency(pools, members[m]);
        stop_pool_set(pools);
    }
    measure_spinning();
    measure_floor();
    measure_sustained();
}
