/* Two fibers that wake each other starve no other fiber: not in the first 2^17 rounds, nor after;
 * nor where the count of rounds reaches the end of its 48 bits. */
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/net.h>

#include "dispatch/dispatcher.h"
#include "dispatch/fixture.h"

#define ROUNDS (INT64_C(1) << 17)

struct game {
    weft_dispatcher *d;
    weft_group *group;
    struct party players[2];
    enum kind kind;
    int fds[2];
    _Atomic(long) stands_by, slept, posted, read;
    _Atomic(bool) over;
};

static bool is_over(struct game *g)
{
    return atomic_load_explicit(&g->over, memory_order_relaxed);
}

static void count(_Atomic(long) *what)
{
    atomic_fetch_add_explicit(what, 1, memory_order_relaxed);
}

static long counted(_Atomic(long) *what)
{
    return atomic_load_explicit(what, memory_order_relaxed);
}

static void *stands_by(void *arg)
{
    struct game *g = arg;
    while (!is_over(g)) {
        count(&g->stands_by);
        weft_yield();
    }
    return NULL;
}

static void *sleeps(void *arg)
{
    struct game *g = arg;
    while (!is_over(g)) {
        CHECK_EQ(weft_sleep(weft_after(MS / 10)), 0);
        count(&g->slept);
    }
    return NULL;
}

static void *reads(void *arg)
{
    struct game *g = arg;
    char c;
    while (weft_read(g->fds[0], &c, 1, WEFT_FOREVER) == 1) {
        count(&g->read);
    }
    return NULL;
}

/* Both play until the group is asked to stop by a post from another thread. */
static void *keeps_playing(void *arg)
{
    struct game *g = arg;
    for (int i = 0; i < 2; i++) {
        spawn_party(g->group, &g->players[i], g->kind, "", INT32_MAX, 1);
    }
    weft_yield();
    for (int i = 0; i < 2; i++) {
        g->players[i].tells = &g->players[!i].event;
    }
    weft_event_set(&g->players[0].event);
    CHECK_EQ(weft_group_sleep(WEFT_FOREVER), 0); /* the stop has arrived */
    for (int i = 0; i < 2; i++) {
        g->players[i].left = 1;
        g->players[i].tells = NULL;
        weft_event_set(&g->players[i].event);
    }
    return NULL;
}

static void has_posted(void *arg)
{
    count(&((struct game *)arg)->posted);
}

static uint64_t rounds_of(weft_dispatcher *d)
{
    struct weft_dispatcher_stats stats;
    weft_dispatcher_stats(d, &stats);
    return stats.rounds;
}

/* All fibers progress while the two play. */
static void check_all_get_on(struct game *g)
{
    long before[4] = {counted(&g->stands_by), counted(&g->slept), counted(&g->posted),
                      counted(&g->read)};
    CHECK_EQ(weft_group_post(g->group, has_posted, g), 0);
    CHECK_EQ(write(g->fds[1], "x", 1), 1);
    while (counted(&g->stands_by) == before[0] || counted(&g->slept) == before[1] ||
           counted(&g->posted) == before[2] || counted(&g->read) == before[3]) {
        sched_yield();
    }
}

static void play(enum kind kind, uint64_t first_round)
{
    struct game g = {.kind = kind};
    CHECK_EQ(weft_dispatcher_create(&g.d, NULL), 0);
    ((struct weft_dispatcher *)g.d)->rounds.round = first_round;
    CHECK_EQ(weft_group_create(g.d, &g.group, NULL), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, g.fds), 0);
    CHECK_EQ(weft_group_spawn(g.group, NULL, stands_by, &g, NULL), 0);
    CHECK_EQ(weft_group_spawn(g.group, NULL, sleeps, &g, NULL), 0);
    CHECK_EQ(weft_group_spawn(g.group, NULL, reads, &g, NULL), 0);
    CHECK_EQ(weft_group_spawn(g.group, NULL, keeps_playing, &g, NULL), 0);
    CHECK_EQ(weft_dispatcher_start(g.d), 0);
    int64_t wanted = ROUNDS + 1000;
    for (int64_t stage = 0; stage <= 4; stage++) { /* before 2^16, after it, after 2^17 */
        while (rounds_of(g.d) < (uint64_t)(wanted * stage / 4)) {
            sched_yield();
        }
        check_all_get_on(&g);
    }
    /* Both ran in every round, or nearly: they were not starved either. */
    struct weft_group_stats stats;
    weft_group_stats(g.group, &stats);
    CHECK(stats.executed >= 2 * (uint64_t)ROUNDS);
    CHECK(counted(&g.stands_by) >= ROUNDS - 10);
    weft_group_stop(g.group);
    atomic_store_explicit(&g.over, true, memory_order_relaxed);
    close(g.fds[1]);
    CHECK_EQ(finish_of(g.group), 0);
    stop_dispatcher(g.d);
    close(g.fds[0]);
}

TEST(mutually_waking_fibers_starve_nothing_in_many_rounds)
{
    play(STACK, 1);
}

TEST(mutually_waking_frames_starve_nothing)
{
    play(FRAME, 1);
}

TEST(round_counter_wrap_starves_nothing)
{
    play(MIXED, (UINT64_C(1) << 48) - 1000);
    play(STACK, (UINT64_C(1) << 48) - 1);
    play(STACK, (UINT64_C(1) << 48) - 2);
    play(FRAME, UINT64_MAX - 1000);
}

/* A fiber that starts in the round that is 0 in 48 bits has its budget. */
static void *is_first(void *arg)
{
    (void)arg;
    note("a");
    return NULL;
}

TEST(start_in_round_0_is_charged_normally)
{
    weft_dispatcher *d;
    weft_group *group;
    forget();
    CHECK_EQ(weft_dispatcher_create(&d, &(struct weft_dispatcher_opts){.caller = true}), 0);
    ((struct weft_dispatcher *)d)->rounds.round = (UINT64_C(1) << 48) - 1; /* the next is 0 */
    group = make_group(d, "g");
    CHECK_EQ(weft_group_spawn(group, NULL, is_first, NULL, NULL), 0);
    weft_group_stop(group);
    CHECK_EQ(weft_dispatcher_run(d), 0);
    CHECK_STR(ran, "a");
    struct weft_group_stats stats;
    weft_group_stats(group, &stats);
    CHECK_EQ(stats.turns, 1);
    stop_dispatcher(d);
}

/* --- a group that is always busy does not starve the others ----------------------------------- */

static void *breeds(void *arg)
{
    struct game *g = arg;
    count(&g->stands_by);
    if (!is_over(g)) {
        CHECK_EQ(weft_spawn(NULL, breeds, g, NULL), 0); /* ready at once, after itself */
    }
    return NULL;
}

static void *yields_on(void *arg)
{
    struct game *g = arg;
    for (int i = 0; i < 100; i++) {
        count(&g->slept);
        weft_yield();
    }
    atomic_store_explicit(&g->over, true, memory_order_relaxed);
    return NULL;
}

TEST(slice_cuts_short_endless_group_turn)
{
    struct game g = {0};
    CHECK_EQ(weft_dispatcher_create(&g.d, &(struct weft_dispatcher_opts){.caller = true}), 0);
    CHECK_EQ(weft_group_create(g.d, &g.group, &(struct weft_group_opts){.slice = 10}), 0);
    weft_group *other = make_group(g.d, "other");
    CHECK_EQ(weft_group_spawn(g.group, NULL, breeds, &g, NULL), 0);
    CHECK_EQ(weft_group_spawn(other, NULL, yields_on, &g, NULL), 0);
    weft_dispatcher_request_stop(g.d);
    CHECK_EQ(weft_dispatcher_run(g.d), 0);
    CHECK_EQ(counted(&g.slept), 100);
    CHECK(counted(&g.stands_by) >= 990 && counted(&g.stands_by) <= 1020);
    stop_dispatcher(g.d);
}
