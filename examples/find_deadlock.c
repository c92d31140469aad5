/* A program that hangs, and how to find out why. Two transfers lock the same two accounts in
 * opposite order. The watchdog reports the cycle by itself; this program then uses the tools of an
 * operator: the list of fibers, the wait cycles, a dump on a signal, and the trace of the
 * scheduler. Finally it cancels one of the transfers, and both end. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

static weft_event reported;
static weft_barrier both_hold_one;

struct account {
    weft_mutex lock;
    long balance;
};

struct transfer {
    struct account *from, *to;
    int status;
};

static void *transfer(void *arg)
{
    struct transfer *self = arg;
    self->status = weft_mutex_lock(&self->from->lock, WEFT_FOREVER);
    weft_barrier_wait(&both_hold_one, WEFT_FOREVER);
    self->status =
        weft_mutex_lock(&self->to->lock, WEFT_FOREVER); /* here they wait for each other */
    if (self->status == 0) {
        self->from->balance -= 10;
        self->to->balance += 10;
        weft_mutex_unlock(&self->to->lock);
    }
    weft_mutex_unlock(&self->from->lock);
    return NULL;
}

/* Called on the watchdog's thread. */
static void on_report(enum weft_report_kind kind, const char *text, void *arg)
{
    (void)arg;
    if (kind == WEFT_REPORT_CYCLE) {
        printf("--- report\n%s", text);
        weft_event_set(&reported);
    }
}

static bool print_fiber(const struct weft_fiber_info *fiber, void *count)
{
    char handle[32];
    weft_fiber_format(fiber->fiber, handle, sizeof handle);
    printf("%s %s is %s, for: %s\n", handle, fiber->name, weft_fiber_state_name(fiber->state),
           fiber->waits ? fiber->waits : "nothing");
    ++*(int *)count;
    return true; /* go on with the next */
}

/* What `kill -USR1 PID` shows. The dump is written by a thread of its own: it works even if all
 * workers are stuck. */
static bool dump_by_signal(void)
{
    static char text[64 * 1024];
    const struct weft_dump_opts brief = {.no_frames = true};
    size_t len = 0;
    int ends[2];
    if (pipe(ends) || weft_dump_on_signal(SIGUSR1, ends[1], &brief)) {
        return false;
    }
    kill(getpid(), SIGUSR1);
    while (!strstr(text, "red2blue") || !strstr(text, "blue2red")) {
        ssize_t n = read(ends[0], text + len, sizeof text - 1 - len);
        if (n <= 0) {
            break;
        }
        len += (size_t)n;
    }
    weft_dump_on_signal_stop(); /* SIGUSR1 is as it was */
    printf("--- dump\n%s", text);
    close(ends[0]);
    close(ends[1]);
    return strstr(text, "mutex") != NULL;
}

/* Prints the events of the trace ring. Returns how many there were. */
static int print_trace(weft_pool *pool)
{
    char *text = NULL;
    size_t size;
    int lines = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) {
        return 0;
    }
    weft_pool_trace_dump(pool, out);
    fclose(out);
    for (const char *at = text; (at = strchr(at, '\n')); at++) {
        lines++;
    }
    printf("--- trace, %d lines\n%s", lines, text);
    free(text);
    return lines;
}

int main(void)
{
    static struct account red = {.balance = 100}, blue = {.balance = 100};
    struct transfer transfers[2] = {{.from = &red, .to = &blue}, {.from = &blue, .to = &red}};
    struct weft_watchdog_stats stats;
    weft_fiber fibers[2];
    weft_pool *pool;
    int count = 0;
    weft_mutex_init(&red.lock, &(struct weft_sync_opts){.name = "red"});
    weft_mutex_init(&blue.lock, &(struct weft_sync_opts){.name = "blue"});
    weft_barrier_init(&both_hold_one, 2, NULL);
    weft_on_report(on_report, NULL);
    if (weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2})) {
        return 1;
    }
    weft_pool_trace(pool, true); /* the last events of each worker, cheap enough to leave on */
    if (weft_pool_start(pool) ||
        weft_pool_spawn(pool, &fibers[0], transfer, &transfers[0],
                        &(struct weft_fiber_opts){.name = "red2blue"}) ||
        weft_pool_spawn(pool, &fibers[1], transfer, &transfers[1],
                        &(struct weft_fiber_opts){.name = "blue2red"})) {
        return 1;
    }
    weft_event_wait(&reported, WEFT_FOREVER);

    printf("--- fibers\n");
    weft_fiber_each(pool, print_fiber, &count);
    printf("--- cycles\n");
    bool found = weft_wait_cycles_dump(stdout) == 1 && count == 2;
    found = dump_by_signal() && found;
    found = print_trace(pool) > 0 && found;
    weft_watchdog_stats(&stats);
    printf("--- watchdog: %llu cycles reported\n", (unsigned long long)stats.cycles);

    weft_cancel(fibers[0]); /* its wait ends; it unlocks the mutex that the other one waits for */
    weft_join(fibers[0], NULL, WEFT_FOREVER);
    weft_join(fibers[1], NULL, WEFT_FOREVER);
    weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(pool);
    weft_on_report(NULL, NULL);
    printf("red has %ld, blue has %ld\n", red.balance, blue.balance);
    if (!found || stats.cycles != 1 || transfers[0].status != -ECANCELED ||
        transfers[1].status != 0 || red.balance != 110 || blue.balance != 90) {
        fprintf(stderr, "find_deadlock: the deadlock was not found, or not resolved\n");
        return 1;
    }
    return 0;
}
