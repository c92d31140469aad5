/* A long computation that saves its progress. It has no waits that a cancel could end, so it asks:
 * an interrupt means "save now and continue", a cancel means "save and end". Saving has to wait
 * itself, and runs in a shield that no cancel or interrupt breaks. A worker whose wait was ended
 * can report what it was waiting for. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

struct progress {
    long tried, primes;
};

static weft_chan *saved;    /* takes a checkpoint when its receiver is ready */
static weft_event next_job; /* never comes in this example */

static bool is_prime(long n)
{
    for (long i = 2; i * i <= n; i++) {
        if (n % i == 0) {
            return false;
        }
    }
    return n > 1;
}

static int save(const struct progress *progress)
{
    weft_fiber_shield_enter();
    int err = weft_chan_send(saved, progress, WEFT_FOREVER); /* waits for the receiver */
    weft_fiber_shield_leave();
    return err;
}

/* Searches until it is cancelled. */
static void *search(void *arg)
{
    struct progress progress = {0};
    int err = 0;
    while (!err && !weft_fiber_is_cancelled()) {
        for (int i = 0; i < 1000; i++) {
            progress.primes += is_prime(progress.tried++);
        }
        if (weft_fiber_is_interrupted()) {
            weft_fiber_clear_interrupt();
            err = save(&progress);
        }
        weft_yield(); /* be fair to other fibers */
    }
    if (!err) {
        err = save(&progress);
    }
    *(int *)arg = err;
    return NULL;
}

/* A worker without a job. */
static void *wait_for_job(void *arg)
{
    int err = weft_event_wait(&next_job, WEFT_FOREVER);
    struct weft_fiber_ended_wait ended;
    if (err && weft_fiber_ended_wait(&ended) == 0) {
        printf("the idle worker was waiting for: %s \"%s\"\n", ended.what, ended.name);
        *(bool *)arg = strcmp(ended.name, "next job") == 0 && ended.object == &next_job;
    }
    return (void *)(intptr_t)err;
}

static bool check(const char *when, const struct progress *progress)
{
    long primes = 0;
    for (long n = 0; n < progress->tried; n++) {
        primes += is_prime(n);
    }
    printf("%s: saved %ld primes below %ld\n", when, progress->primes, progress->tried);
    return progress->tried % 1000 == 0 && primes == progress->primes;
}

static void *run(void *arg)
{
    struct progress first, last;
    weft_fiber searcher, idle;
    void *idle_err = NULL;
    int search_err = 0;
    bool named = false;
    if (weft_spawn(&searcher, search, &search_err, NULL) ||
        weft_spawn(&idle, wait_for_job, &named, NULL)) {
        return NULL;
    }
    weft_fiber_interrupt(searcher);
    int err = weft_chan_recv(saved, &first, WEFT_FOREVER);
    weft_cancel(searcher);
    weft_cancel(idle);
    err = err ? err : weft_chan_recv(saved, &last, WEFT_FOREVER);
    weft_join(searcher, NULL, WEFT_FOREVER);
    weft_join(idle, &idle_err, WEFT_FOREVER);
    if (err || search_err) {
        fprintf(stderr, "checkpoint: %s\n", weft_strerror(err ? err : search_err));
        return NULL;
    }
    bool well = check("interrupted", &first) && check("cancelled  ", &last);
    *(bool *)arg = well && last.tried >= first.tried && (intptr_t)idle_err == -ECANCELED && named;
    return NULL;
}

int main(void)
{
    bool well = false;
    weft_event_init(&next_job, &(struct weft_sync_opts){.name = "next job"});
    int err = weft_chan_create(&saved, sizeof(struct progress), NULL);
    if (!err) {
        err = weft_run(NULL, run, &well, NULL, WEFT_FOREVER);
    }
    weft_chan_destroy(saved);
    if (err || !well) {
        fprintf(stderr, "checkpoint: %s, or a wrong checkpoint\n", weft_strerror(err));
        return 1;
    }
    return 0;
}
