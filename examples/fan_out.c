/* Query several servers at once and take the first reply; the queries that still run are cancelled.
 * The scope guarantees that no query runs any more when ask_all returns, in every case; its
 * deadline bounds the whole wait. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

enum { SERVERS = 5 };

struct query {
    weft_future *answer; /* completed by the first reply; later replies are ignored */
    int server;
    int64_t takes_ns;
};

/* Simulates a server: takes some time, and stops when it is cancelled. */
static int ask(void *arg)
{
    struct query *query = arg;
    int err = weft_sleep(weft_after(query->takes_ns));
    if (err) {
        printf("server %d was cancelled\n", query->server);
        return err;
    }
    weft_future_complete(query->answer, query);
    return 0;
}

static int ask_all(struct query *queries, struct query **first, int64_t deadline)
{
    weft_future *answer;
    weft_scope scope;
    int err = weft_future_create(&answer, NULL);
    if (err) {
        return err;
    }
    weft_scope_open(&scope, &(struct weft_scope_opts){.deadline = deadline});
    for (int i = 0; i < SERVERS && !err; i++) {
        queries[i].answer = answer;
        err = weft_scope_spawn(&scope, NULL, ask, &queries[i], NULL);
    }
    void *value = NULL;
    if (!err) {
        err = weft_future_get(answer, &value, deadline);
    }
    weft_scope_cancel(&scope); /* cancel the slow queries */
    weft_scope_close(&scope, WEFT_FOREVER);
    weft_future_unref(answer);
    *first = value;
    return err;
}

static void *run(void *arg)
{
    struct query queries[SERVERS], *first;
    for (int i = 0; i < SERVERS; i++) {
        /* One server is fast; the others would take minutes. */
        queries[i] =
            (struct query){.server = i, .takes_ns = i == 3 ? WEFT_MS(2) : WEFT_MINUTES(10)};
    }
    int err = ask_all(queries, &first, weft_after(WEFT_SECONDS(60)));
    if (!err) {
        printf("server %d answered\n", first->server);
    }
    *(int *)arg = err ? err : first->server;

    queries[3].takes_ns = WEFT_MINUTES(10); /* no server replies in time */
    err = ask_all(queries, &first, weft_after(WEFT_MS(5)));
    printf("then: %s\n", err == -ETIMEDOUT ? "no answer in time" : "?");
    return (void *)(intptr_t)err;
}

int main(void)
{
    int server = -1;
    void *second = NULL;
    int err = weft_run(&second, run, &server, NULL, WEFT_FOREVER);
    return err == 0 && server == 3 && (intptr_t)second == -ETIMEDOUT ? 0 : 1;
}
