/* labels: valgrind */
/* The same inputs give the same order, as the hash of the order shows; other inputs give another
 * order. */
#include <pthread.h>
#include <stdatomic.h>

#include <weft/chan.h>
#include <weft/sync.h>

#include "dispatch/fixture.h"

static uint64_t hash_of(weft_dispatcher *d)
{
    struct weft_dispatcher_stats stats;
    weft_dispatcher_stats(d, &stats);
    return stats.order_hash;
}

#define FIBERS 40
#define GROUPS 3

/* All events are drawn from one seed, in the order in which they happen: if the order changes, so
 * does everything after it. */
struct play {
    uint64_t rand;
    weft_group *groups[GROUPS];
    weft_sem sem;
    weft_mutex mutex;
    weft_chan *chan;
    weft_event event;
    struct party parties[FIBERS];
    int born, playing;
};

static uint64_t draw(struct play *p)
{
    p->rand = p->rand * 6364136223846793005u + 1442695040888963407u;
    return p->rand >> 33;
}

static void posted(void *arg)
{
    struct play *p = arg;
    draw(p);
    weft_event_set(&p->parties[draw(p) % FIBERS].event);
}

static void *lives_short(void *arg)
{
    struct play *p = arg;
    draw(p);
    weft_yield();
    draw(p);
    return NULL;
}

static void act(struct play *p)
{
    void *item = p;
    switch (draw(p) % 8) {
    case 0:
        weft_yield();
        break;
    case 1:
        weft_event_set(&p->parties[draw(p) % FIBERS].event);
        break;
    case 2:
        CHECK_EQ(weft_group_post(p->groups[draw(p) % GROUPS], posted, p), 0);
        break;
    case 3:
        CHECK_EQ(weft_group_spawn(p->groups[draw(p) % GROUPS], NULL, lives_short, p,
                                  &(struct weft_member_opts){.signals_per_round = 2}),
                 0);
        break;
    case 4:
        CHECK_EQ(weft_sem_acquire(&p->sem, 1, WEFT_FOREVER), 0);
        weft_yield();
        weft_sem_release(&p->sem, 1);
        break;
    case 5:
        CHECK_EQ(weft_mutex_lock(&p->mutex, WEFT_FOREVER), 0);
        weft_yield();
        weft_mutex_unlock(&p->mutex);
        break;
    case 6:
        (void)weft_chan_send(p->chan, &item, 0);
        break;
    default:
        (void)weft_chan_recv(p->chan, &item, 0);
        break;
    }
}

static void *acts(void *arg)
{
    struct play *p = arg;
    for (int i = 0; i < 50; i++) {
        act(p);
    }
    if (--p->playing == 0) { /* the last fiber releases the parties */
        for (int i = 0; i < FIBERS; i++) {
            p->parties[i].left = 1;
            weft_event_set(&p->parties[i].event);
        }
    }
    return NULL;
}

static uint64_t order_of(uint64_t seed)
{
    static struct play p;
    weft_dispatcher *d;
    p = (struct play){.rand = seed, .playing = FIBERS};
    forget();
    CHECK_EQ(weft_dispatcher_create(
                 &d, &(struct weft_dispatcher_opts){.caller = true, .order_hash = true}),
             0);
    weft_sem_init(&p.sem, 2, NULL);
    CHECK_EQ(weft_chan_create(&p.chan, sizeof(void *), &(struct weft_chan_opts){.capacity = 3}), 0);
    for (int i = 0; i < GROUPS; i++) {
        struct weft_group_opts opts = {.slice = 5 + (unsigned)i};
        CHECK_EQ(weft_group_create(d, &p.groups[i], &opts), 0);
    }
    for (int i = 0; i < FIBERS; i++) {
        struct weft_member_opts opts = {.signals_per_round = 1 + (unsigned)i % 3};
        spawn_party(p.groups[i % GROUPS], &p.parties[i], i % 2 ? FRAME : STACK, "", INT32_MAX,
                    1 + (unsigned)i % 2);
        CHECK_EQ(weft_group_spawn(p.groups[i % GROUPS], NULL, acts, &p, &opts), 0);
    }
    weft_dispatcher_request_stop(d);
    CHECK_EQ(weft_dispatcher_run(d), 0);
    uint64_t hash = hash_of(d);
    weft_chan_destroy(p.chan);
    stop_dispatcher(d);
    return hash ^ p.rand; /* and of the numbers they drew */
}

/* An observer holds fibers where they wait for a moment. */
static void *looks(void *arg)
{
    FILE *nowhere = fopen("/dev/null", "w");
    CHECK(nowhere);
    while (!atomic_load_explicit((_Atomic(bool) *)arg, memory_order_relaxed)) {
        CHECK_EQ(weft_dump(nowhere, &(struct weft_dump_opts){.no_frames = true}), 0);
    }
    fclose(nowhere);
    return NULL;
}

TEST(run_order_does_not_depend_on_observers)
{
    _Atomic(bool) over = false;
    pthread_t viewer;
    uint64_t alone = order_of(7);
    CHECK_EQ(pthread_create(&viewer, NULL, looks, &over), 0);
    for (int i = 0; i < 10; i++) {
        CHECK(order_of(7) == alone);
    }
    atomic_store_explicit(&over, true, memory_order_relaxed);
    pthread_join(viewer, NULL);
}

TEST(same_seed_gives_same_run_order)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        uint64_t first = order_of(seed);
        CHECK(order_of(seed) == first);
        CHECK(order_of(seed + 100) != first);
    }
}

static void *yields(void *arg)
{
    for (int i = 0; i < *(int *)arg; i++) {
        weft_yield();
    }
    return NULL;
}

/* The hash depends on the order, and not only on how often each fiber ran. */
static uint64_t order_of_two(int a, int b)
{
    weft_dispatcher *d;
    CHECK_EQ(weft_dispatcher_create(
                 &d, &(struct weft_dispatcher_opts){.caller = true, .order_hash = true}),
             0);
    weft_group *group = make_group(d, "g");
    CHECK_EQ(weft_group_spawn(group, NULL, yields, &a, NULL), 0);
    CHECK_EQ(weft_group_spawn(group, NULL, yields, &b, NULL), 0);
    weft_group_stop(group);
    CHECK_EQ(weft_dispatcher_run(d), 0);
    uint64_t hash = hash_of(d);
    stop_dispatcher(d);
    return hash;
}

TEST(different_run_order_gives_different_hash)
{
    CHECK(order_of_two(3, 5) == order_of_two(3, 5));
    CHECK(order_of_two(3, 5) != order_of_two(5, 3));
}

TEST(order_hash_is_off_by_default)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    CHECK_EQ(hash_of(d), 0);
    stop_dispatcher(d);
}
