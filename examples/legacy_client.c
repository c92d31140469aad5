/* A client library that blocks, and whose licence allows two connections. Its calls get a thread
 * pool of their own with two threads: the pool is the limit, and however many fibers call, none of
 * them blocks a worker. Other blocking work uses the process-wide pool and is not delayed. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>
#include <weft/weft.h>

enum { CONNECTIONS = 2, FIBERS = 10, QUERIES = 3 };

/* --- the library ------------------------------------------------------------------------ */

static atomic_int connections, most_connections;

static long legacy_query(long number)
{
    int now = atomic_fetch_add(&connections, 1) + 1, most = atomic_load(&most_connections);
    while (now > most && !atomic_compare_exchange_weak(&most_connections, &most, now)) {
    }
    usleep(200); /* the server's answer */
    atomic_fetch_sub(&connections, 1);
    return number * 2;
}

/* --- the program ------------------------------------------------------------------------ */

static weft_blocking_pool *legacy;

static void *call_query(void *number)
{
    return (void *)legacy_query((long)number);
}

static void *host_name(void *name)
{
    return gethostname(name, 63) ? NULL : name;
}

static int query(void *arg)
{
    for (long i = 0; i < QUERIES; i++) {
        long number = (long)arg + i;
        void *result = NULL;
        int err = weft_blocking_call(legacy, &result, call_query, (void *)number, WEFT_FOREVER);
        if (err) {
            return err;
        }
        if ((long)result != 2 * number) {
            return -EBADMSG;
        }
    }
    return 0;
}

static void *run(void *arg)
{
    struct weft_blocking_stats stats;
    char name[64] = "";
    weft_scope scope;
    const struct weft_blocking_opts opts = {
        .name = "legacy", .max_threads = CONNECTIONS, .idle_ns = WEFT_SECONDS(1)};
    int err = weft_blocking_create(&legacy, &opts);
    if (err) {
        return (void *)(intptr_t)err;
    }
    weft_scope_open(&scope, NULL);
    for (long i = 0; i < FIBERS && !err; i++) {
        err = weft_scope_spawn(&scope, NULL, query, (void *)(i * 100), NULL);
    }
    /* This call does not queue after the queries. A NULL pool means the same one. */
    int other = weft_blocking_call(weft_blocking_default(), NULL, host_name, name, WEFT_FOREVER);
    weft_blocking_stats(legacy, &stats);
    printf("host %s; meanwhile %u queries wait for a thread\n", name, stats.queued);

    int failure = weft_scope_close(&scope, WEFT_FOREVER);
    int stopped = weft_blocking_stop(legacy, WEFT_FOREVER);
    int late = weft_blocking_call(legacy, NULL, call_query, NULL, WEFT_FOREVER);
    weft_blocking_stats(legacy, &stats);
    weft_blocking_destroy(legacy);
    printf("%d queries on at most %u threads; then: %s\n", (int)stats.done, stats.peak,
           weft_strerror(late));
    *(bool *)arg = !failure && !other && !stopped && late == -ESHUTDOWN && *name &&
                   stats.done == FIBERS * QUERIES && stats.peak <= CONNECTIONS;
    return (void *)(intptr_t)err;
}

int main(void)
{
    bool well = false;
    void *failure = NULL;
    int err = weft_run(&failure, run, &well, NULL, WEFT_FOREVER);
    if (err || failure || !well || atomic_load(&most_connections) > CONNECTIONS) {
        fprintf(stderr, "legacy_client: %s; %d connections\n",
                weft_strerror(err ? err : (int)(intptr_t)failure), atomic_load(&most_connections));
        return 1;
    }
    return 0;
}
