/* labels: valgrind */
/* Objects that belong to a group: two fibers use each object, and use from elsewhere aborts the
 * program with both names.
 *
 * That these objects make no atomic read-modify-write is visible in their sources:
 * weft__source_lock, and the `step` of each word, check the owner and store.
 */
#include <pthread.h>

#include <weft/chan.h>
#include <weft/sync.h>

#include "dispatch/fixture.h"

static struct {
    weft_mutex mutex;
    weft_cond cond;
    weft_event event;
    weft_chan *chan;
    weft_sem sem;
    weft_future *future;
    weft_waitgroup waitgroup;
    weft_rwlock rwlock;
    weft_oneshot oneshot;
    weft_once once;
    weft_barrier barrier;
    int turn, value;
} o;

static void make_objects(weft_group *group)
{
    struct weft_sync_opts opts = {.name = "it", .group = group};
    weft_mutex_init(&o.mutex, &opts);
    weft_cond_init(&o.cond, &opts);
    weft_event_init(&o.event, &opts);
    CHECK_EQ(weft_chan_create(&o.chan, sizeof(int),
                              &(struct weft_chan_opts){.name = "it", .group = group}),
             0);
    weft_sem_init(&o.sem, 0, &opts);
    CHECK_EQ(weft_future_create(&o.future, &opts), 0);
    weft_waitgroup_init(&o.waitgroup, &opts);
    weft_rwlock_init(&o.rwlock, &opts);
    weft_oneshot_init(&o.oneshot, &opts);
    weft_once_init(&o.once, &opts);
    weft_barrier_init(&o.barrier, 2, &opts);
    o.turn = 0;
    o.value = 0;
}

/* Runs in the group. */
static void destroy_objects(void)
{
    weft_mutex_deinit(&o.mutex);
    weft_cond_deinit(&o.cond);
    weft_event_deinit(&o.event);
    weft_chan_destroy(o.chan);
    weft_sem_deinit(&o.sem);
    weft_future_unref(o.future);
    weft_waitgroup_deinit(&o.waitgroup);
    weft_rwlock_deinit(&o.rwlock);
    weft_oneshot_deinit(&o.oneshot);
    weft_once_deinit(&o.once);
    weft_barrier_deinit(&o.barrier);
}

static void counts(void *arg)
{
    ++*(int *)arg;
}

/* One fiber waits on each object and the other ends the wait; the locks are contended. */
static void *uses_first(void *arg)
{
    int item = 0;
    void *value;
    CHECK_EQ(weft_event_wait(&o.event, WEFT_FOREVER), 0);
    CHECK_EQ(weft_sem_acquire(&o.sem, 2, WEFT_FOREVER), 0);
    CHECK_EQ(weft_sem_acquire(&o.sem, 1, weft_after(MS / 10)), -ETIMEDOUT);
    CHECK_EQ(weft_chan_recv(o.chan, &item, WEFT_FOREVER), 0);
    CHECK_EQ(item, 17);
    CHECK_EQ(weft_future_get(o.future, &value, WEFT_FOREVER), 0);
    CHECK(value == &o);
    weft_waitgroup_add(&o.waitgroup, 2);
    CHECK_EQ(weft_waitgroup_wait(&o.waitgroup, WEFT_FOREVER), 0);
    CHECK_EQ(weft_oneshot_wait(&o.oneshot, &value, WEFT_FOREVER), 0);
    CHECK(value == &o.value);
    CHECK_EQ(weft_once_call(&o.once, counts, &o.value, WEFT_FOREVER), 0);
    CHECK(weft_barrier_wait(&o.barrier, WEFT_FOREVER) >= 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_mutex_lock(&o.mutex, WEFT_FOREVER), 0);
        while (o.turn % 2 == 1) {
            CHECK_EQ(weft_cond_wait(&o.cond, &o.mutex, WEFT_FOREVER), 0);
        }
        weft_yield(); /* the other fiber queues */
        o.turn++;
        weft_cond_signal(&o.cond);
        weft_mutex_unlock(&o.mutex);
    }
    CHECK_EQ(weft_rwlock_write(&o.rwlock, WEFT_FOREVER), 0);
    weft_yield();
    weft_rwlock_write_unlock(&o.rwlock);
    CHECK(weft_barrier_wait(&o.barrier, WEFT_FOREVER) >= 0);
    return arg;
}

static void *uses_second(void *arg)
{
    int item = 17;
    weft_yield();
    weft_event_set(&o.event);
    weft_yield();
    weft_sem_release(&o.sem, 2);
    CHECK_EQ(weft_chan_send(o.chan, &item, WEFT_FOREVER), 0);
    weft_yield();
    CHECK_EQ(weft_future_complete(o.future, &o), 0);
    weft_yield();
    weft_waitgroup_done(&o.waitgroup);
    weft_waitgroup_done(&o.waitgroup);
    weft_yield();
    CHECK_EQ(weft_oneshot_notify(&o.oneshot, &o.value), 0);
    CHECK_EQ(weft_once_call(&o.once, counts, &o.value, WEFT_FOREVER), 0);
    CHECK(weft_barrier_wait(&o.barrier, WEFT_FOREVER) >= 0);
    CHECK_EQ(o.value, 1);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_mutex_lock(&o.mutex, WEFT_FOREVER), 0);
        while (o.turn % 2 == 0) {
            CHECK_EQ(weft_cond_wait(&o.cond, &o.mutex, WEFT_FOREVER), 0);
        }
        o.turn++;
        weft_cond_broadcast(&o.cond);
        weft_mutex_unlock(&o.mutex);
    }
    CHECK_EQ(weft_rwlock_read(&o.rwlock, WEFT_FOREVER), 0);
    weft_yield();
    weft_rwlock_read_unlock(&o.rwlock);
    CHECK(weft_barrier_wait(&o.barrier, WEFT_FOREVER) >= 0);
    destroy_objects();
    return arg;
}

TEST(two_fibers_of_group_share_owned_objects)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "mine");
    make_objects(group);
    CHECK_EQ(weft_group_spawn(group, NULL, uses_first, NULL, NULL), 0);
    CHECK_EQ(weft_group_spawn(group, NULL, uses_second, NULL, NULL), 0);
    weft_group_stop(group);
    CHECK_EQ(finish_of(group), 0);
    CHECK_EQ(o.turn, 20);
    stop_dispatcher(d);
}

/* A fiber that waits in the group may be cancelled from anywhere: the cancel does not touch the
 * object. */
static void *waits_on_event(void *arg)
{
    CHECK_EQ(weft_event_wait(&o.event, WEFT_FOREVER), -ECANCELED);
    destroy_objects();
    return arg;
}

TEST(waiter_on_owned_object_can_be_cancelled_from_outside)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "mine");
    weft_fiber fiber;
    make_objects(group);
    CHECK_EQ(weft_group_spawn(group, &fiber, waits_on_event, NULL, NULL), 0);
    CHECK_EQ(weft_cancel(fiber), 0);
    weft_group_stop(group);
    CHECK_EQ(finish_of(group), 0);
    stop_dispatcher(d);
}

/* --- from elsewhere --------------------------------------------------------------------------- */

static void touch(int which)
{
    int item = 0;
    switch (which) {
    case 0:
        weft_mutex_lock(&o.mutex, WEFT_FOREVER);
        break;
    case 1:
        weft_cond_signal(&o.cond);
        break;
    case 2:
        weft_event_set(&o.event);
        break;
    case 3:
        weft_chan_send(o.chan, &item, WEFT_FOREVER);
        break;
    case 4:
        weft_sem_release(&o.sem, 1);
        break;
    case 5:
        weft_future_complete(o.future, NULL);
        break;
    case 6:
        weft_waitgroup_add(&o.waitgroup, 1);
        break;
    case 7:
        weft_rwlock_read(&o.rwlock, WEFT_FOREVER);
        break;
    case 8:
        weft_oneshot_notify(&o.oneshot, NULL);
        break;
    case 9:
        weft_once_call(&o.once, counts, &item, WEFT_FOREVER);
        break;
    default:
        weft_barrier_wait(&o.barrier, WEFT_FOREVER);
        break;
    }
}
#define OBJECTS 11

static void *touches(void *arg)
{
    touch((int)(intptr_t)arg);
    return NULL;
}

struct foreign {
    int which;
    enum {
        GROUP,
        POOL,
        THREAD,
    } from;
};

static void uses_from_elsewhere(void *arg)
{
    const struct foreign *f = arg;
    weft_dispatcher *d = start_dispatcher(NULL);
    void *which = (void *)(intptr_t)f->which;
    make_objects(make_group(d, "mine"));
    if (f->from == GROUP) {
        weft_group *other = make_group(d, "theirs");
        weft_group_spawn(other, NULL, touches, which, NULL);
        weft_group_stop(other);
        finish_of(other);
    } else if (f->from == POOL) {
        weft_run(NULL, touches, which, &(struct weft_pool_opts){.workers = 1, .name = "public"},
                 WEFT_FOREVER);
    } else {
        touch(f->which);
    }
}

TEST(use_of_owned_object_from_outside_aborts_naming_both)
{
    static const char *const users[] = {"group theirs", "pool public", "a plain thread"};
    for (int which = 0; which < OBJECTS; which++) {
        for (int from = GROUP; from <= THREAD; from++) {
            struct foreign f = {.which = which, .from = from};
            char err[4096], expected[128];
            int status = check_child(uses_from_elsewhere, &f, err, sizeof err);
            snprintf(expected, sizeof expected, "it belongs to group mine and was used from %s",
                     users[from]);
            if (status == 0 || !strstr(err, expected)) {
                check_fail(__FILE__, __LINE__, "object %d, from %s: %s", which, users[from], err);
            }
        }
    }
}
