/* Channels with all operations at once: every item that a send accepted is received exactly once,
 * despite deadlines, cancels, interrupts, closes and selects. Waits that nothing else ends have no
 * deadline: a lost wake-up is a stall, which the watchdog detects from outside. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "check.h"
#include "stress/watchdog.h"

enum { CHANNELS = 3, SENDERS = 6, RECEIVERS = 4 };

static weft_chan *chans[CHANNELS];
static _Atomic(uint8_t) *seen; /* per item: how often it was received */
static _Atomic(uint8_t) *accepted;
static atomic_long received, disturbed;

static uint32_t dice(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Handles the result of one attempt: done, closed (returns true: no more), or ended from
 * outside. */
static bool outcome(int err, long item, _Atomic(uint8_t) *marks)
{
    if (err == 0) {
        CHECK_EQ(atomic_fetch_add_explicit(&marks[item], 1, memory_order_relaxed), 0);
        return true;
    }
    CHECK(err == -ETIMEDOUT || err == -EINTR || err == -EPIPE);
    atomic_fetch_add_explicit(&disturbed, err != -EPIPE, memory_order_relaxed);
    return false;
}

struct party {
    int number;
    long first, items; /* the items of a sender */
    weft_fiber fiber;
    atomic_bool ended;
};

static int64_t some_deadline(uint64_t *state)
{
    uint32_t kind = dice(state) % 8;
    return kind == 0 ? 0 : kind < 3 ? weft_after(dice(state) % 50000) : WEFT_FOREVER;
}

/* One attempt to send, by a random call. */
static int send_somehow(uint64_t *state, const long *item)
{
    weft_chan *chan = chans[dice(state) % CHANNELS];
    int64_t deadline = some_deadline(state);
    uint32_t way = dice(state) % 4;
    if (way == 0) {
        return (int)weft_chan_send_many(chan, item, 1, deadline) == 1 ? 0 : -ETIMEDOUT;
    }
    if (way == 1) {
        struct weft_case cases[CHANNELS];
        for (int i = 0; i < CHANNELS; i++) {
            cases[i] = weft_case_send(chans[i], item);
        }
        int which = weft_select(cases, CHANNELS, deadline);
        return which >= 0 ? cases[which].status : which;
    }
    return weft_chan_send(chan, item, deadline);
}

static void *sends(void *arg)
{
    struct party *me = arg;
    uint64_t state = check_seed() + (uint64_t)me->number * 977;
    for (long item = me->first; item < me->first + me->items; item++) {
        while (!outcome(send_somehow(&state, &item), item, accepted)) {
        }
        if (item % 64 == 0) {
            watchdog_progress();
        }
    }
    atomic_store(&me->ended, true);
    return NULL;
}

/* One attempt to receive; returns the number of items, or an error. */
static int recv_somehow(uint64_t *state, long *items, int most)
{
    weft_chan *chan = chans[dice(state) % CHANNELS];
    int64_t deadline = some_deadline(state);
    uint32_t way = dice(state) % 4;
    if (way < 2 ||
        deadline == WEFT_FOREVER) { /* without a deadline: on all, one might get no item */
        struct weft_case cases[CHANNELS];
        for (int i = 0; i < CHANNELS; i++) {
            cases[i] = weft_case_recv(chans[i], items);
        }
        int which = weft_select(cases, CHANNELS, deadline);
        return which < 0 ? which : cases[which].status ? cases[which].status : 1;
    }
    if (way == 2) {
        return (int)weft_chan_recv_many(chan, items, (size_t)most, deadline);
    }
    int err = weft_chan_recv(chan, items, deadline);
    return err ? err : 1;
}

static void *receives(void *arg)
{
    struct party *me = arg;
    uint64_t state = check_seed() + (uint64_t)me->number * 1013;
    long items[5];
    int closed = 0;
    while (closed < 20 * CHANNELS) { /* closed, and nothing arrived in that many attempts */
        int n = recv_somehow(&state, items, 1 + (int)(dice(&state) % 5));
        for (int i = 0; i < n; i++) {
            CHECK(outcome(0, items[i], seen));
        }
        closed = n == -EPIPE ? closed + 1 : n > 0 ? 0 : closed;
        if (n < 0) {
            CHECK(n == -EPIPE || !outcome(n, 0, seen));
        } else {
            atomic_fetch_add(&received, n);
        }
    }
    atomic_store(&me->ended, true);
    return NULL;
}

static struct party parties[SENDERS + RECEIVERS];

static void *interrupts(void *arg)
{
    uint64_t state = check_seed() ^ 5;
    atomic_bool *stop = arg;
    while (!atomic_load(stop)) {
        weft_fiber_interrupt(parties[dice(&state) % (SENDERS + RECEIVERS)].fiber);
        weft_sleep(weft_after(20000));
    }
    return NULL;
}

/* After the close: there are no receivers any more, but some may have stopped with items left. */
static void drain(void)
{
    long item;
    for (int i = 0; i < CHANNELS; i++) {
        while (weft_chan_recv(chans[i], &item, 0) == 0) {
            CHECK(outcome(0, item, seen));
            atomic_fetch_add(&received, 1);
        }
        CHECK_EQ(weft_chan_recv(chans[i], &item, WEFT_FOREVER), -EPIPE);
        weft_chan_destroy(chans[i]);
    }
}

static void run(weft_pool *a, weft_pool *b, const size_t capacities[CHANNELS], long each)
{
    atomic_bool stop = false;
    for (int i = 0; i < CHANNELS; i++) {
        const struct weft_chan_opts opts = {.capacity = capacities[i],
                                            .max_capacity = i == 2 ? 4 * capacities[i] : 0};
        CHECK_EQ(weft_chan_create(&chans[i], sizeof(long), &opts), 0);
    }
    long total = each * SENDERS;
    seen = calloc((size_t)total, 1);
    accepted = calloc((size_t)total, 1);
    CHECK(seen && accepted);
    atomic_store(&received, 0);
    for (int i = 0; i < SENDERS + RECEIVERS; i++) {
        parties[i] = (struct party){.number = i, .first = i * each, .items = each};
        CHECK_EQ(weft_pool_spawn(i % 3 ? a : b, &parties[i].fiber, i < SENDERS ? sends : receives,
                                 &parties[i], NULL),
                 0);
    }
    pthread_t disturber;
    CHECK_EQ(pthread_create(&disturber, NULL, interrupts, &stop), 0);
    for (int i = 0; i < SENDERS; i++) {
        CHECK_EQ(weft_join(parties[i].fiber, NULL, WEFT_FOREVER), 0);
    }
    for (int i = 0; i < CHANNELS; i++) {
        weft_chan_close(chans[i]);
    }
    for (int i = SENDERS; i < SENDERS + RECEIVERS; i++) {
        CHECK_EQ(weft_join(parties[i].fiber, NULL, WEFT_FOREVER), 0);
    }
    atomic_store(&stop, true);
    CHECK_EQ(pthread_join(disturber, NULL), 0);
    drain();
    CHECK_EQ(atomic_load(&received), total);
    for (long i = 0; i < total; i++) {
        CHECK_EQ(atomic_load(&accepted[i]), 1);
        CHECK_EQ(atomic_load(&seen[i]), 1);
    }
    free((void *)(uintptr_t)seen);
    free((void *)(uintptr_t)accepted);
}

static weft_pool *pool_open(const char *name, unsigned workers)
{
    const struct weft_pool_opts opts = {.name = name, .workers = workers};
    return watched_open(&opts);
}

TEST(every_channel_item_is_received_once_under_random_ends)
{
    static const size_t capacities[][CHANNELS] = {{0, 0, 0}, {1, 1, 1}, {0, 2, 1}, {64, 8, 4}};
    watchdog_start("channels");
    weft_pool *a = pool_open("a", 2), *b = pool_open("b", 3);
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        run(a, i % 2 ? a : b, capacities[i], check_scale(3000));
    }
    watched_close(b);
    watched_close(a);
    printf("     %ld waits were ended from outside\n", atomic_load(&disturbed));
    watchdog_stop();
}

/* --- cancel ------------------------------------------------------------------------ */

static atomic_long tokens;

/* Passes tokens on until it is cancelled; a token that it then holds is counted. */
static void *juggles(void *arg)
{
    weft_chan *chan = arg;
    long token;
    while (weft_chan_recv(chan, &token, WEFT_FOREVER) == 0) {
        if (weft_fiber_is_cancelled() || weft_chan_send(chan, &token, WEFT_FOREVER) != 0) {
            atomic_fetch_add(&tokens, 1);
            break;
        }
        watchdog_progress();
        weft_yield(); /* with plenty of items and capacity it would never wait */
    }
    return NULL;
}

TEST(cancelled_fiber_takes_no_channel_item)
{
    enum { TOKENS = 3, JUGGLERS = 8 };
    watchdog_start("cancel");
    weft_pool *pool = pool_open("jugglers", 2);
    for (long lap = 0; lap < check_scale(100); lap++) {
        weft_chan *chan;
        weft_fiber fibers[JUGGLERS];
        const struct weft_chan_opts opts = {.capacity = 2};
        CHECK_EQ(weft_chan_create(&chan, sizeof(long), &opts), 0);
        atomic_store(&tokens, 0);
        for (int i = 0; i < JUGGLERS; i++) {
            CHECK_EQ(weft_pool_spawn(pool, &fibers[i], juggles, chan, NULL), 0);
        }
        for (long i = 0; i < TOKENS; i++) {
            CHECK_EQ(weft_chan_send(chan, &i, WEFT_FOREVER), 0);
        }
        for (int i = 0; i < JUGGLERS; i++) {
            CHECK_EQ(weft_cancel(fibers[i]), 0);
            CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
        }
        long left, found = 0;
        while (weft_chan_recv(chan, &left, 0) == 0) {
            found++;
        }
        CHECK_EQ(found + atomic_load(&tokens), TOKENS);
        weft_chan_destroy(chan);
    }
    watched_close(pool);
    watchdog_stop();
}
