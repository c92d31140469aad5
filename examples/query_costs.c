/* Measuring with perf events. A client of a database reports the cost of each query, as the
 * server has measured it, and a collector keeps the distribution. A callback of the program counts
 * the waits of fibers that are longer than a budget. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { CLIENTS = 4, QUERIES = 25 }; /* of each client */

/* --- waits over the budget ------------------------------------------------------------------ */

struct budget {
    int64_t wait_ns;
    atomic_ulong waits, slow;
};

static bool is_wait(unsigned type, void *arg)
{
    (void)arg;
    return type == WEFT_PERF_ACQUIRE;
}

/* Called wherever a wait ended, on several threads at once: short, and never waits. */
static void check_budget(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum,
                         weft_pool *pool, void *arg)
{
    struct budget *budget = arg;
    (void)type, (void)count, (void)sum, (void)pool;
    atomic_fetch_add(&budget->waits, 1);
    atomic_fetch_add(&budget->slow, cost_ns > budget->wait_ns);
}

static struct budget budget = {.wait_ns = WEFT_US(200)};
static const struct weft_perf watcher = {
    .accept = is_wait, .on_event = check_budget, .arg = &budget};

/* --- the database --------------------------------------------------------------------------- */

static unsigned query_type;

struct answer {
    int64_t server_ns; /* as the server has measured it */
    uint64_t rows, bytes;
};

static struct answer ask_database(unsigned number)
{
    weft_yield(); /* the network */
    return (struct answer){.server_ns = WEFT_US(number + 1), .rows = number % 10, .bytes = 80};
}

static int client(void *arg)
{
    unsigned first = (unsigned)(uintptr_t)arg * QUERIES;
    for (unsigned i = 0; i < QUERIES; i++) {
        struct answer answer = ask_database(first + i);
        weft_perf_event(query_type, answer.server_ns, answer.rows, answer.bytes);
    }
    return 0;
}

static void *run(void *arg)
{
    weft_scope scope;
    weft_scope_open(&scope, NULL);
    for (uintptr_t i = 0; i < CLIENTS; i++) {
        weft_scope_spawn(&scope, NULL, client, (void *)i, NULL);
    }
    *(int *)arg = weft_scope_close(&scope, WEFT_FOREVER);
    while (!atomic_load(&budget.slow)) { /* each of these waits is over the budget */
        weft_sleep(weft_after(WEFT_MS(1)));
    }
    return NULL;
}

int main(void)
{
    struct weft_perf_stats stats;
    weft_collector *collector;
    int failed = 0, type = weft_perf_register("query");
    if (type < 0) {
        return 1;
    }
    query_type = (unsigned)type;
    const struct weft_collector_opts opts = {.prefix = "db", .types = UINT64_C(1) << type};
    if (weft_collector_create(&collector, &opts) || weft_collector_start(collector) ||
        weft_perf_install(&watcher)) {
        return 1;
    }
    int err = weft_run(NULL, run, &failed, NULL, WEFT_FOREVER);
    weft_perf_remove(&watcher); /* the callback does not run any more */

    weft_collector_stop(collector); /* keeps what it has, and takes no more: */
    weft_perf_event(query_type, WEFT_SECONDS(1), 1, 1);
    err = err ? err : weft_collector_read(collector, &stats, query_type);
    if (err || failed) {
        fprintf(stderr, "query_costs: %s\n", weft_strerror(err ? err : failed));
        return 1;
    }
    weft_collector_dump(collector, stdout);
    weft_collector_destroy(collector);
    printf("%llu queries: half within %.0f us, 99%% within %.0f us, none over %.0f us; %.1f rows\n",
           (unsigned long long)stats.calls, (double)stats.p50_ns / 1e3, (double)stats.p99_ns / 1e3,
           (double)stats.max_ns / 1e3, stats.mean_count);
    printf("waits over %.0f us: %s\n", (double)budget.wait_ns / 1e3,
           atomic_load(&budget.slow) ? "yes" : "no");
    /* Query i has cost i us; percentiles are rounded up by at most 1/8. */
    if (stats.calls != 100 || stats.max_ns != WEFT_US(100) || stats.sum != 8000 ||
        stats.p50_ns < WEFT_US(50) || stats.p50_ns > WEFT_US(50) * 9 / 8 ||
        stats.p99_ns < WEFT_US(99) || stats.p99_ns > WEFT_US(99) * 9 / 8 ||
        atomic_load(&budget.slow) > atomic_load(&budget.waits)) {
        fprintf(stderr, "query_costs: the numbers are wrong\n");
        return 1;
    }
    return 0;
}
