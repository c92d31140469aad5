/* Whole pools under stress: 16 workers on whatever CPUs there are, rings of 4 slots and fresh
 * queues of 2, trees of fibers that spawn, join, yield, park, migrate between two pools and bind
 * themselves, observed all the time by a thread that takes dumps. Every fiber runs exactly once, on
 * an allowed worker, and keeps its errno, its fiber-local values and the contents of its stack. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/rand.h"
#include "check.h"
#include "stress/watchdog.h"

#define MOST_NODES 20000

struct node {
    int number;
    int budget; /* descendants it may have */
    int bound;  /* the worker it was bound to when spawned, or -1 */
    weft_pool *home;
    _Atomic(weft_fiber) parent; /* the fiber to unpark at the end */
    atomic_int *parent_wakes;
    struct weft__rand rand;
    atomic_int ran, ended;
};

static struct {
    weft_pool *pools[2];
    struct node *nodes;
    atomic_int made;
    weft_fiber_key key;
    atomic_int destroyed; /* values of the key */
} play;

static uint32_t dice(struct node *self, uint32_t sides)
{
    return weft__rand_next(&self->rand) % sides;
}

/* --- state that a fiber keeps on every worker ------------------------------- */

struct frame {
    struct node *self;
    weft_fiber fiber;
    int error;
    unsigned char bytes[256];
};

static __attribute__((noinline)) int read_errno(void)
{
    int error = errno;
    __asm__ volatile("" : "+r"(error)::"memory");
    return error;
}

static __attribute__((noinline)) void write_errno(int error)
{
    __asm__ volatile("" : "+r"(error)::"memory");
    errno = error;
}

static void frame_fill(struct frame *frame, struct node *self)
{
    frame->self = self;
    frame->fiber = weft_self();
    frame->error = 1000 + self->number;
    memset(frame->bytes, self->number & 0xff, sizeof frame->bytes);
    write_errno(frame->error);
}

static void frame_check(const struct frame *frame)
{
    CHECK_EQ(read_errno(), frame->error);
    CHECK(weft_self() == frame->fiber);
    CHECK(weft_fiber_get_local(play.key) == frame->self);
    CHECK_EQ(frame->bytes[0], frame->self->number & 0xff);
    CHECK(memcmp(frame->bytes, frame->bytes + 1, sizeof frame->bytes - 1) == 0);
    CHECK(weft_worker_self() >= 0);
}

static void local_destroyed(void *value)
{
    struct node *self = value;
    CHECK_EQ(atomic_load(&self->ended), 1);
    atomic_fetch_add(&play.destroyed, 1);
}

/* --- actions of a fiber --------------------------------------------------------- */

static void *grow(void *arg);

static struct node *node_make(struct node *parent, int budget)
{
    int number = atomic_fetch_add(&play.made, 1);
    CHECK(number < MOST_NODES);
    struct node *node = &play.nodes[number];
    node->number = number;
    node->budget = budget;
    node->bound = -1;
    weft__rand_seed(&node->rand, check_seed() + (unsigned)number);
    if (parent) {
        node->home = dice(parent, 8) ? weft_pool_self() : play.pools[dice(parent, 2)];
        if (dice(parent, 6) == 0) {
            node->bound = (int)dice(parent, weft_pool_workers(node->home));
        }
    }
    return node;
}

/* Starts a child; joinable if `fiber` is given. */
static void child_start(struct node *node, weft_fiber *fiber)
{
    struct weft_fiber_opts opts = {.bound = node->bound >= 0,
                                   .worker = node->bound >= 0 ? node->bound : 0,
                                   .stack_bytes = node->number % 5 ? 0 : 32768};
    CHECK_EQ(weft_pool_spawn(node->home, fiber, grow, node, &opts), 0);
}

/* Starts some children and joins them in the order of their creation. */
static void join_children(struct node *self, int budget)
{
    weft_fiber fibers[4];
    struct node *children[4];
    int n = 1 + (int)dice(self, 4);
    n = n < budget ? n : budget;
    for (int i = 0; i < n; i++) {
        children[i] = node_make(self, (budget - n) / n);
        child_start(children[i], &fibers[i]);
    }
    for (int i = 0; i < n; i++) {
        void *result;
        CHECK_EQ(weft_join(fibers[i], &result, WEFT_FOREVER), 0);
        CHECK(result == children[i]);
        CHECK_EQ(atomic_load(&children[i]->ended), 1);
    }
}

/* Starts a detached child that unparks this fiber at its end. */
static void await_child(struct node *self, int budget)
{
    atomic_int wakes = 0;
    struct node *child = node_make(self, budget - 1);
    child->parent_wakes = &wakes;
    atomic_store(&child->parent, weft_self());
    child_start(child, NULL);
    while (atomic_load(&wakes) == 0) {
        CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    }
    CHECK_EQ(atomic_load(&child->ended), 1);
}

static void *on_worker(void *arg)
{
    CHECK_EQ(weft_worker_self(), *(int *)arg);
    weft_yield();
    CHECK_EQ(weft_worker_self(), *(int *)arg);
    return arg;
}

static void move(struct node *self)
{
    struct weft_migration hop;
    weft_pool *from = weft_pool_self();
    weft_pool *to = play.pools[dice(self, 2)];
    int worker = (int)dice(self, weft_pool_workers(to));
    void *result;
    switch (dice(self, 4)) {
    case 0:
        CHECK_EQ(weft_pool_call(to, &result, worker, on_worker, &worker, WEFT_FOREVER), 0);
        CHECK(result == &worker);
        break;
    case 1:
        CHECK_EQ(weft_migration_enter(&hop, to, WEFT_ANY_WORKER), 0);
        CHECK(weft_pool_self() == to);
        weft_yield();
        weft_migration_leave(&hop);
        break;
    case 2:
        CHECK_EQ(weft_fiber_migrate(to, worker), 0);
        CHECK_EQ(weft_worker_self(), worker);
        weft_yield();
        CHECK_EQ(weft_worker_self(), worker);
        CHECK_EQ(weft_fiber_migrate(from, self->bound), 0);
        break;
    default:
        CHECK_EQ(weft_fiber_migrate(from, self->bound), 0); /* already there */
        break;
    }
    CHECK(weft_pool_self() == from);
}

static void wander(struct node *self)
{
    for (uint32_t steps = dice(self, 4); steps > 0; steps--) {
        if (dice(self, 3) == 0) {
            move(self);
        } else {
            weft_yield();
        }
    }
    if (self->bound >= 0) {
        CHECK_EQ(weft_worker_self(), self->bound);
    }
}

static void *grow(void *arg)
{
    struct node *self = arg;
    struct frame frame;
    CHECK_EQ(atomic_fetch_add(&self->ran, 1), 0);
    CHECK(weft_pool_self() == self->home);
    CHECK_EQ(weft_fiber_set_local(play.key, self), 0);
    frame_fill(&frame, self);
    wander(self);
    frame_check(&frame);
    for (int left = self->budget; left > 0;) {
        int part = 1 + (int)dice(self, (uint32_t)left);
        if (dice(self, 3) == 0) {
            await_child(self, part);
        } else {
            join_children(self, part);
        }
        left -= part;
        frame_check(&frame);
        wander(self);
        frame_check(&frame);
    }
    watchdog_progress();
    atomic_store(&self->ended, 1);
    if (self->parent_wakes) {
        weft_fiber parent = atomic_load(&self->parent);
        atomic_fetch_add(self->parent_wakes, 1);
        (void)weft_fiber_unpark(parent); /* it may have seen the count, and even ended, already */
    }
    return self;
}

/* --- the observer: snapshots of a running pool -------------------------------------- */

static atomic_bool watching;

static bool visit(const struct weft_fiber_info *info, void *arg)
{
    enum weft_fiber_state state;
    char name[16];
    CHECK(info->fiber != WEFT_NO_FIBER);
    (void)weft_fiber_state(info->fiber, &state);
    (void)weft_fiber_name(info->fiber, name, sizeof name);
    ++*(int *)arg;
    return true;
}

static void *watch(void *arg)
{
    FILE *nowhere = fopen("/dev/null", "w");
    CHECK(nowhere != NULL);
    (void)arg;
    while (atomic_load(&watching)) {
        int seen = 0;
        struct weft_pool_stats stats;
        weft_pool_dump(play.pools[0], nowhere, 100);
        weft_fiber_each(NULL, visit, &seen);
        weft_pool_stats(play.pools[1], &stats);
        struct timespec nap = {.tv_nsec = 2000000};
        nanosleep(&nap, NULL);
    }
    fclose(nowhere);
    return NULL;
}

/* --- a round ---------------------------------------------------------------------------- */

static void play_round(int trees, int budget)
{
    atomic_store(&play.made, 0);
    atomic_store(&play.destroyed, 0);
    memset(play.nodes, 0, MOST_NODES * sizeof *play.nodes);
    weft_fiber roots[64];
    struct node *nodes[64];
    for (int i = 0; i < trees; i++) {
        nodes[i] = node_make(NULL, budget / trees);
        nodes[i]->home = play.pools[i % 2];
    }
    for (int i = 0; i < trees; i++) {
        child_start(nodes[i], &roots[i]);
    }
    for (int i = 0; i < trees; i++) {
        CHECK_EQ(weft_join(roots[i], NULL, WEFT_FOREVER), 0);
    }
}

static void check_round(void)
{
    int made = atomic_load(&play.made);
    for (int i = 0; i < made; i++) {
        CHECK_EQ(atomic_load(&play.nodes[i].ran), 1);
        CHECK_EQ(atomic_load(&play.nodes[i].ended), 1);
    }
    CHECK_EQ(atomic_load(&play.destroyed), made);
}

static weft_pool *pool_open(const char *name, unsigned workers, enum weft_fresh_order order)
{
    weft_pool *pool;
    struct weft_pool_opts opts = {
        .name = name, .workers = workers, .ring_slots = 4, .fresh_slots = 2, .fresh_order = order};
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    watchdog_watch(pool);
    return pool;
}

TEST(every_fiber_of_two_oversubscribed_pools_runs_exactly_once)
{
    pthread_t watcher;
    watchdog_start("pool");
    play.nodes = calloc(MOST_NODES, sizeof *play.nodes);
    CHECK(play.nodes != NULL);
    CHECK_EQ(weft_fiber_key_create(&play.key, local_destroyed), 0);
    play.pools[0] = pool_open("crowd", 16, WEFT_FRESH_LIFO);
    play.pools[1] = pool_open("few", 3, WEFT_FRESH_FIFO);
    atomic_store(&watching, true);
    CHECK_EQ(pthread_create(&watcher, NULL, watch, NULL), 0);
    for (long round = 0; round < check_scale(8); round++) {
        CHECK_EQ(weft_pool_start(play.pools[0]), 0);
        CHECK_EQ(weft_pool_start(play.pools[1]), 0);
        play_round(round % 2 ? 40 : 3, 2500);
        /* Only a stop makes the last counts of detached fibers visible. */
        CHECK_EQ(weft_pool_stop(play.pools[0], WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        CHECK_EQ(weft_pool_stop(play.pools[1], WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        check_round();
    }
    atomic_store(&watching, false);
    CHECK_EQ(pthread_join(watcher, NULL), 0);
    for (int i = 0; i < 2; i++) {
        struct weft_pool_stats stats;
        weft_pool_stats(play.pools[i], &stats);
        CHECK_EQ(stats.live, 0);
        CHECK_EQ(stats.global, 0);
        CHECK_EQ(stats.total.ring + stats.total.fresh + stats.total.bound + stats.total.inbox, 0);
        printf("     %s: %" PRIu64 " turns, %" PRIu64 " steals, %" PRIu64 " overflows, %" PRIu64
               " parks\n",
               stats.name, stats.total.executed, stats.total.steals, stats.total.overflows,
               stats.total.parks);
        watchdog_forget(play.pools[i]);
        weft_pool_destroy(play.pools[i]);
    }
    free(play.nodes);
    watchdog_stop();
}
