/* A backend that allows only a few requests at a time, used by many fibers: a function pool with
 * that many workers stands before it. Calls beyond the limit wait their turn in order, and a second
 * pool refuses them instead. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { CALLERS = 20, AT_ONCE = 2 };

static atomic_int active, most_active;

/* One request to the backend: doubles a number. */
static int query(const weft_buf *input, weft_buf **output, void *arg)
{
    int n, now = atomic_fetch_add(&active, 1) + 1, most = atomic_load(&most_active);
    (void)arg;
    while (now > most && !atomic_compare_exchange_weak(&most_active, &most, now)) {
    }
    weft_yield(); /* the request is on its way */
    memcpy(&n, input->data, sizeof n);
    n *= 2;
    *output = weft_buf_copy(&n, sizeof n);
    atomic_fetch_sub(&active, 1);
    return *output ? 0 : -ENOMEM;
}

struct caller {
    weft_funcpool *backend;
    int number, answer;
};

static int call(void *arg)
{
    struct caller *caller = arg;
    weft_buf *output;
    int err =
        weft_funcpool_call(caller->backend, &output,
                           weft_buf_copy(&caller->number, sizeof caller->number), WEFT_FOREVER);
    if (!err) {
        memcpy(&caller->answer, output->data, sizeof caller->answer);
        weft_buf_free(output);
    }
    return err;
}

/* All callers at the same time. */
static int call_all(weft_funcpool *backend)
{
    struct caller callers[CALLERS];
    weft_scope scope;
    int err = 0;
    weft_scope_open(&scope, NULL);
    for (int i = 0; i < CALLERS && !err; i++) {
        callers[i] = (struct caller){.backend = backend, .number = i};
        err = weft_scope_spawn(&scope, NULL, call, &callers[i], NULL);
    }
    int failed = weft_scope_close(&scope, WEFT_FOREVER);
    err = err ? err : failed;
    for (int i = 0; i < CALLERS && !err; i++) {
        err = callers[i].answer == 2 * i ? 0 : -EPROTO;
    }
    return err;
}

/* --- a pool that refuses -------------------------------------------------------------------- */

static weft_funcpool *picky;

/* While this call runs, no other call is admitted. */
static int call_again(const weft_buf *input, weft_buf **output, void *arg)
{
    int *refused = arg;
    (void)input, (void)output;
    *refused = weft_funcpool_call(picky, NULL, NULL, WEFT_FOREVER);
    return 0;
}

static int try_refusal(void)
{
    struct weft_funcpool_stats stats;
    int refused = 0;
    int err = weft_funcpool_create(&picky, call_again, &refused,
                                   &(struct weft_funcpool_opts){.kind = WEFT_FUNCPOOL_INLINE,
                                                                .max_calls = 1,
                                                                .fail_when_full = true});
    if (err) {
        return err;
    }
    err = weft_funcpool_call(picky, NULL, NULL, WEFT_FOREVER);
    weft_funcpool_stop(picky, WEFT_FOREVER);
    weft_funcpool_stats(picky, &stats);
    printf("%d call done, %d refused: %s\n", (int)stats.done, (int)stats.refused,
           weft_strerror(refused));
    weft_funcpool_destroy(picky);
    bool ok = refused == -EAGAIN && stats.done == 1 && stats.refused == 1;
    return err ? err : ok ? 0 : -EPROTO;
}

static void *run(void *arg)
{
    int *err = arg;
    weft_funcpool *backend;
    struct weft_funcpool_stats stats;
    *err = weft_funcpool_create(&backend, query, NULL,
                                &(struct weft_funcpool_opts){.kind = WEFT_FUNCPOOL_STATIC,
                                                             .pool = weft_pool_self(),
                                                             .workers = AT_ONCE});
    if (*err) {
        return NULL;
    }
    *err = call_all(backend);
    weft_funcpool_stop(backend, WEFT_FOREVER);
    weft_funcpool_stats(backend, &stats);
    printf("%d calls done by %u workers\n", (int)stats.done, stats.peak_workers);
    weft_funcpool_destroy(backend);
    if (!*err && (stats.done != CALLERS || atomic_load(&most_active) > AT_ONCE)) {
        *err = -EPROTO;
    }
    return NULL;
}

int main(void)
{
    int failed = 0;
    int err = weft_run(NULL, run, &failed, NULL, WEFT_FOREVER);
    err = err ? err : failed ? failed : try_refusal();
    if (err) {
        fprintf(stderr, "limit_calls: %s\n", weft_strerror(err));
    }
    return err != 0;
}
