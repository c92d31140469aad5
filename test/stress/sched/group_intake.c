/* Threads post functions and spawn fibers into groups that are created, stopped and failed
 * meanwhile, and inspect the groups: each accepted item is served exactly once, and each group
 * finishes. Dev builds add delays between the steps of the intake. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <weft/dispatcher.h>
#include <weft/weft.h>

#include "check.h"

#define SENDERS 3
#define GROUPS 4
#define LATE 40

static struct {
    weft_dispatcher *d;
    pthread_rwlock_t lock; /* read: the groups exist; write: one is replaced */
    weft_group *groups[GROUPS];
    _Atomic(int) late[GROUPS]; /* posts still allowed to a stopping group: more keep it open */
    _Atomic(long) accepted, served, refused, daemons, ended;
    _Atomic(bool) over;
} s;

struct item {
    struct weft_post post; /* first */
};

static void count(_Atomic(long) *what)
{
    atomic_fetch_add_explicit(what, 1, memory_order_relaxed);
}

static uint64_t draw(uint64_t *rand)
{
    *rand = *rand * 6364136223846793005u + 1442695040888963407u;
    return *rand >> 33;
}

static void serves(void *arg)
{
    CHECK(weft_group_self() == arg);
    count(&s.served);
}

static void serves_item(struct weft_post *post)
{
    count(&s.served);
    free(post);
}

static void *serves_fiber(void *arg)
{
    weft_yield();
    CHECK(weft_group_self() == arg);
    weft_yield();
    count(&s.served);
    return NULL;
}

static int serves_call(void *arg, void **value)
{
    CHECK(weft_group_self() == arg);
    *value = arg;
    count(&s.served);
    return 0;
}

static void *serves_as_daemon(void *arg)
{
    int err = weft_sleep(WEFT_FOREVER);
    CHECK_EQ(err, -ECANCELED);
    count(&s.ended);
    return arg;
}

static void note(int err)
{
    CHECK(err == 0 || err == -ESHUTDOWN);
    count(err ? &s.refused : &s.accepted);
}

static void hand_over(weft_group *group, uint64_t how)
{
    struct item *item;
    int err;
    switch (how % 6) {
    case 0:
    case 1:
        note(weft_group_post(group, serves, group));
        break;
    case 2:
        item = malloc(sizeof *item);
        CHECK(item);
        item->post = (struct weft_post){.fn = serves_item};
        err = weft_group_submit(group, &item->post);
        if (err) {
            free(item);
        }
        note(err);
        break;
    case 3:
        note(weft_group_spawn(group, NULL, serves_fiber, group, NULL));
        break;
    case 4:
        note(weft_group_call(group, NULL, serves_call, group));
        break;
    default:
        if (atomic_load_explicit(&s.daemons, memory_order_relaxed) -
                atomic_load_explicit(&s.ended, memory_order_relaxed) >
            100) {
            break;
        }
        err = weft_group_spawn(group, NULL, serves_as_daemon, NULL,
                               &(struct weft_member_opts){.daemon = true});
        CHECK(err == 0 || err == -ESHUTDOWN);
        if (!err) {
            count(&s.daemons);
        }
        break;
    }
}

/* The dispatcher has more than enough to do. */
static bool behind(void)
{
    return atomic_load_explicit(&s.accepted, memory_order_relaxed) -
               atomic_load_explicit(&s.served, memory_order_relaxed) >
           100;
}

static bool may_send(unsigned i)
{
    return !weft_group_is_stopping(s.groups[i]) ||
           atomic_fetch_sub_explicit(&s.late[i], 1, memory_order_relaxed) > 0;
}

static void *sends(void *arg)
{
    uint64_t rand = (uint64_t)(uintptr_t)arg;
    while (!atomic_load_explicit(&s.over, memory_order_relaxed)) {
        pthread_rwlock_rdlock(&s.lock);
        unsigned i = (unsigned)(draw(&rand) % GROUPS);
        weft_group *group = s.groups[i];
        for (uint64_t n = draw(&rand) % 20; n > 0 && may_send(i); n--) {
            hand_over(group, draw(&rand));
        }
        if (draw(&rand) % 16 == 0) {
            weft_group_stop(group);
        }
        struct weft_group_stats stats;
        weft_group_stats(group, &stats);
        CHECK(stats.ready <= stats.fibers + stats.daemons);
        pthread_rwlock_unlock(&s.lock);
        while (behind() && !atomic_load_explicit(&s.over, memory_order_relaxed)) {
            sched_yield();
        }
    }
    return NULL;
}

static weft_group *fresh(uint64_t *rand)
{
    weft_group *group;
    struct weft_group_opts opts = {.slice = 1 + (unsigned)(draw(rand) % 50)};
    CHECK_EQ(weft_group_create(s.d, &group, &opts), 0);
    return group;
}

/* A group is asked to stop while others send to it; another group replaces it after it has
 * finished. */
static void exchange(uint64_t *rand)
{
    unsigned i = (unsigned)(draw(rand) % GROUPS);
    weft_group *old = s.groups[i]; /* only this thread replaces them */
    weft_group_stop(old);
    CHECK_EQ(weft_future_wait(weft_group_finished(old), WEFT_FOREVER), 0);
    struct weft_group_stats stats;
    weft_group_stats(old, &stats);
    CHECK_EQ(stats.state, WEFT_GROUP_FINISHED);
    weft_group *next = fresh(rand);
    pthread_rwlock_wrlock(&s.lock);
    s.groups[i] = next;
    atomic_store_explicit(&s.late[i], LATE, memory_order_relaxed);
    pthread_rwlock_unlock(&s.lock);
    weft_group_destroy(old);
}

TEST(accepted_group_work_is_served_once_however_groups_end)
{
    uint64_t rand = check_seed();
    pthread_t threads[SENDERS];
    CHECK_EQ(weft_dispatcher_create(&s.d, NULL), 0);
    CHECK_EQ(weft_dispatcher_start(s.d), 0);
    pthread_rwlockattr_t attr; /* otherwise the senders, which never pause, starve the writer */
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&s.lock, &attr);
    for (int i = 0; i < GROUPS; i++) {
        s.groups[i] = fresh(&rand);
        atomic_store_explicit(&s.late[i], LATE, memory_order_relaxed);
    }
    for (int i = 0; i < SENDERS; i++) {
        void *seed = (void *)(uintptr_t)(draw(&rand) + 1);
        CHECK_EQ(pthread_create(&threads[i], NULL, sends, seed), 0);
    }
    for (long n = check_scale(4000); n > 0; n--) {
        exchange(&rand);
    }
    CHECK_EQ(weft_dispatcher_stop(s.d, NULL, 0, WEFT_FOREVER), 0); /* while they continue */
    atomic_store_explicit(&s.over, true, memory_order_relaxed);
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
    }
    weft_dispatcher_destroy(s.d);
    CHECK_EQ(atomic_load(&s.served), atomic_load(&s.accepted));
    CHECK_EQ(atomic_load(&s.ended), atomic_load(&s.daemons));
    CHECK(atomic_load(&s.accepted) > 0);
    printf("  accepted %ld, refused %ld, daemons %ld\n", atomic_load(&s.accepted),
           atomic_load(&s.refused), atomic_load(&s.daemons));
    pthread_rwlock_destroy(&s.lock);
}
