/* Clients of worker/perf.c: events against install and removal of the callback. T0 is a worker, the
 * others are plain threads. */
#include <string.h>

#include "base/objname.h"
#include "model/explore.h"
#include "worker/perf.h"
#include "worker/worker.h"

static struct weft__worker worker;
static int data[2]; /* of the two callbacks: owned by them while they are installed */
static struct weft_perf perfs[2];
static int heard; /* by the second */

struct weft__worker *weft__worker_self(void)
{
    return x_thread() == 0 ? &worker : NULL;
}

/* Type names are kept for ever: not a leak of an execution. */
char *weft__objname_copy(const char *text)
{
    return strdup(text);
}

/* Type 8 belongs to the first callback, 9 to the other, 10 to both. */
static bool accepts(unsigned type, void *arg)
{
    int which = arg == &data[1];
    return type == 10 || type == 8u + (unsigned)which;
}

static void on_event(unsigned type, int64_t cost, uint64_t count, uint64_t sum, weft_pool *pool,
                     void *arg)
{
    (void)cost, (void)count, (void)sum, (void)pool;
    X_ASSERT(accepts(type, arg));
    X_ASSERT(*(int *)arg == 1); /* set before install, unset after removal */
    if (arg == &data[1]) {
        heard++;
    }
}

static void setup(void)
{
    memset(&weft__perf, 0, sizeof weft__perf);
    atomic_init(&weft__perf.mask, 0);
    for (unsigned i = 0; i < WEFT__PERF_SLOTS; i++) {
        atomic_init(&weft__perf.slots[i].callback, NULL);
        atomic_init(&weft__perf.slots[i].mask, 0);
    }
    atomic_init(&weft__perf.lock.word, 0);
    for (unsigned i = 0; i < WEFT__PERF_SHARDS; i++) {
        atomic_init(&weft__perf.shards[i].users, 0);
    }
    x_name(&weft__perf, sizeof weft__perf, "perf");
    for (int i = 0; i < 2; i++) {
        data[i] = 0;
        perfs[i] = (struct weft_perf){.accept = accepts, .on_event = on_event, .arg = &data[i]};
    }
    weft_perf_register("eight");
    weft_perf_register("nine");
    weft_perf_register("ten");
}

static void install(int which)
{
    data[which] = 1;
    perfs[which].arg = &data[which];
    X_ASSERT(weft_perf_install(&perfs[which]) == 0);
}

static void remove_it(int which)
{
    X_ASSERT(weft_perf_remove(&perfs[which]) == 0);
    data[which] = 2; /* races with any thread that is still in the callback */
    perfs[which].arg = NULL;
}

static void setup_installed(void)
{
    setup();
    install(0);
}

static void rest(void)
{
    for (unsigned i = 0; i < WEFT__PERF_SHARDS; i++) {
        X_ASSERT(weft__perf.shards[i].users == 0);
    }
    X_ASSERT(weft__perf.lock.word == 0);
}

static void event_against_removal(int i)
{
    if (i == 0) {
        weft__perf_emit(10, 1, 1, 1);
        weft__perf_emit(8, 1, 1, 1);
    } else {
        remove_it(0);
    }
}

static void event_against_install(int i)
{
    if (i == 0) {
        weft__perf_emit(10, 1, 1, 1);
    } else {
        install(0);
        remove_it(0);
    }
}

/* The second callback must not get events that only the first has accepted. */
static void one_follows_another(int i)
{
    if (i == 0) {
        weft__perf_emit(8, 1, 1, 1);
    } else {
        remove_it(0);
        install(1);
        remove_it(1);
    }
}

/* With a callback that stays installed: it gets all of its events, and the other one's slot is
 * reused. */
static void one_goes_while_another_stays(int i)
{
    if (i == 0) {
        weft__perf_emit(10, 1, 1, 1);
    } else {
        remove_it(0);
        install(0);
    }
}

static void setup_both(void)
{
    setup();
    install(0);
    install(1);
    heard = 0;
}

static void rest_both(void)
{
    X_ASSERT(heard == 1);
    X_ASSERT(weft__perf.mask == 7u << 8);
    rest();
}

static void two_threads_report(int i)
{
    if (i < 2) {
        weft__perf_emit(10, 1, 1, 1);
    } else {
        remove_it(0);
    }
}

static const struct x_client clients[] = {
    X_CLIENT("event_against_removal", 2, setup_installed, event_against_removal, rest),
    X_CLIENT("event_against_install", 2, setup, event_against_install, rest),
    X_CLIENT("one_follows_another", 2, setup_installed, one_follows_another, rest, .preemptions = 2,
             .stale = 2),
    X_CLIENT("one_goes_while_another_stays", 2, setup_both, one_goes_while_another_stays, rest_both,
             .preemptions = 2, .stale = 2),
    X_CLIENT("two_threads_report", 3, setup_installed, two_threads_report, rest, .preemptions = 2,
             .stale = 1),
};

X_MAIN(clients)
