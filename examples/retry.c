/* Retries with growing pauses, within a budget of time. The caller sets one deadline, on a scope. A
 * function below reads it with weft_scope_deadline and does not begin a pause that would outlast
 * it: the function gives up at once and leaves its caller the rest of the time. The first file that
 * cannot be fetched cancels the scope, and no more downloads are started. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

struct server {
    const char *name;
    int refusals;     /* the server refuses this many attempts for each file */
    int64_t pause_ns; /* before the second attempt; doubled after each */
    atomic_int attempts, fetched;
};

/* Returns 0; -ETIMEDOUT if there is no time for another attempt; -ECANCELED. */
static int fetch(void *arg)
{
    struct server *server = arg;
    int64_t pause_ns = server->pause_ns;
    for (int attempt = 0;; attempt++) {
        atomic_fetch_add(&server->attempts, 1);
        if (attempt == server->refusals) {
            atomic_fetch_add(&server->fetched, 1);
            return 0;
        }
        /* The cached clock is a little behind, and costs nothing: good enough to plan with. */
        if (weft_now_cached() + pause_ns > weft_scope_deadline()) {
            return -ETIMEDOUT;
        }
        int err = weft_sleep(weft_after(pause_ns));
        if (err) {
            return err;
        }
        pause_ns *= 2;
    }
}

static int fetch_files(struct server *server, int files, int64_t deadline)
{
    weft_scope scope;
    const struct weft_scope_opts opts = {
        .name = server->name, .deadline = deadline, .fail_fast = true};
    int started = 0;
    int err = weft_scope_open(&scope, &opts);
    while (!err && started < files && !weft_scope_is_cancelled(&scope)) {
        err = weft_scope_spawn(&scope, NULL, fetch, server, NULL);
        started++;
        weft_yield();
    }
    int failure = weft_scope_close(&scope, WEFT_FOREVER);
    err = failure ? failure : err; /* the failure says why a spawn was refused */
    printf("%s: %d of %d files, %s\n", server->name, atomic_load(&server->fetched), files,
           err ? weft_strerror(err) : "done");
    return err;
}

static void *run(void *arg)
{
    enum { FILES = 5 };
    /* Two refusals cost 3 ms. A pause of an hour does not fit into ten minutes: nobody waits. */
    struct server busy = {.name = "busy server", .refusals = 2, .pause_ns = WEFT_MS(1)};
    struct server down = {
        .name = "dead server", .refusals = INT32_MAX, .pause_ns = WEFT_MINUTES(60)};
    int first = fetch_files(&busy, FILES, weft_after(WEFT_MINUTES(10)));
    int second = fetch_files(&down, FILES, weft_after(WEFT_MINUTES(10)));
    *(bool *)arg = first == 0 && atomic_load(&busy.attempts) == 3 * FILES && second == -ETIMEDOUT &&
                   atomic_load(&down.attempts) <= FILES;
    return NULL;
}

int main(void)
{
    bool well = false;
    int err = weft_run(NULL, run, &well, NULL, WEFT_FOREVER);
    if (err || !well) {
        fprintf(stderr, "retry: %s, or a wrong number of attempts\n", weft_strerror(err));
        return 1;
    }
    return 0;
}
