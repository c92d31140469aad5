/* labels: valgrind */
/* Mutexes and rwlocks in frames: which waiter gets the lock, and which does not. In a group and in
 * a pool with two workers. */
#include "frame/locks.h"

/* --- acquired ------------------------------------------------------------------------------- */

EACH_HOME(free_lock_is_taken_immediately_and_unlocked_by_later_step)
{
    EACH_KIND(kind, KINDS)
    {
        struct user users[3];
        weft_fiber fibers[3];
        for (int i = 0; i < 3; i++) { /* more than there are workers: they move */
            user_open(&users[i], kind, &place);
            users[i].rests = 50;
            fibers[i] = home_spawn(home, &users[i].frame);
        }
        for (int i = 0; i < 3; i++) {
            join(fibers[i]);
            CHECK_EQ(users[i].status, 0);
            CHECK_EQ(users[i].handled, 0);
        }
    }
}

EACH_HOME(cancelled_frame_fiber_takes_free_lock)
{
    EACH_KIND(kind, KINDS)
    {
        struct user u;
        user_open(&u, kind, &place);
        weft_fiber fiber = home_spawn(home, &u.frame);
        weft_cancel(fiber); /* before its first step, in the middle, or after it has ended */
        join(fiber);
        CHECK_EQ(u.status, 0);
    }
}

EACH_HOME(contended_lock_is_handed_over_in_arrival_order)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    EACH_KIND(kind, EXCLUSIVE)
    {
        struct user users[4];
        weft_fiber fibers[4];
        keep(kind, &place);
        for (int i = 0; i < 4; i++) {
            user_open(&users[i], kind, &place);
            users[i].name = names[i];
            users[i].rests = i;
            fibers[i] = home_waiting(home, &users[i].frame);
        }
        give_back(kind, &place);
        for (int i = 0; i < 4; i++) {
            join(fibers[i]);
            CHECK_EQ(users[i].status, 0);
        }
        notes_are("a b c d");
    }
}

EACH_HOME(waiting_frame_readers_are_admitted_together)
{
    struct user users[3];
    weft_fiber fibers[3];
    atomic_bool go = false;
    place_open(&place, NULL);
    keep(&kinds[2], &place);
    for (int i = 0; i < 3; i++) {
        user_open(&users[i], &kinds[2], &place);
        users[i].go = &go;
        fibers[i] = home_waiting(home, &users[i].frame);
    }
    give_back(&kinds[2], &place);
    for (int i = 0; i < 3; i++) { /* each while the others have it */
        while (!atomic_load(&users[i].locked)) {
            sched_yield();
        }
    }
    CHECK_EQ(weft_rwlock_write(&place.rwlock, 0), -ETIMEDOUT);
    atomic_store(&go, true);
    for (int i = 0; i < 3; i++) {
        join(fibers[i]);
    }
    place_close(&place);
}

static void *reads_when_admitted(void *arg)
{
    struct place *p = arg;
    CHECK_EQ(weft_rwlock_read(&p->rwlock, WEFT_FOREVER), 0);
    weft_rwlock_read_unlock(&p->rwlock);
    return NULL;
}

/* The fiber at the head of the queue is young, and is told to retry; a frame cannot retry. */
EACH_HOME(reader_frame_behind_retrying_fiber_gets_lock)
{
    for (int i = 0; i < 20; i++) {
        struct user u;
        place_open(&place, NULL);
        keep(&kinds[2], &place);
        weft_fiber fiber = home_spawn_fn(home, reads_when_admitted, &place);
        await_state(fiber, WEFT_FIBER_WAITING);
        user_open(&u, &kinds[2], &place);
        weft_fiber frame = home_waiting(home, &u.frame);
        give_back(&kinds[2], &place);
        join(frame);
        join(fiber);
        CHECK_EQ(u.status, 0);
        place_close(&place);
    }
}

/* When a frame among the readers queued after an admitted writer finishes its wait, no reader may
 * overtake the next writer. */
EACH_HOME(frame_readers_do_not_starve_writer)
{
    struct user first, late, w;
    atomic_bool first_goes = false, writer_goes = false;
    place_open(&place, NULL);
    user_open(&first, &kinds[2], &place);
    first.go = &first_goes;
    keep(&kinds[2], &place);
    weft_fiber reader = home_waiting(home, &first.frame);
    give_back(&kinds[2], &place); /* it was admitted from the queue */
    while (!atomic_load(&first.locked)) {
        sched_yield();
    }
    user_open(&w, &kinds[1], &place);
    w.go = &writer_goes;
    weft_fiber writes = home_waiting(home, &w.frame);
    user_open(&late, &kinds[2], &place);
    late.deadline = weft_after(5 * MS);
    join(home_spawn(home, &late.frame));
    CHECK_EQ(late.status, -ETIMEDOUT); /* and when it gives up none is admitted */
    CHECK(!atomic_load(&w.locked));
    user_open(&late, &kinds[2], &place);
    weft_fiber last = home_waiting(home, &late.frame);
    atomic_store(&first_goes, true);
    join(reader);
    while (!atomic_load(&w.locked)) {
        sched_yield();
    }
    CHECK(!atomic_load(&late.locked));
    atomic_store(&writer_goes, true);
    join(writes);
    join(last);
    place_close(&place);
}

/* --- not acquired ----------------------------------------------------------------------------- */

EACH_HOME(lock_timeout_is_status_and_lock_is_not_held)
{
    EACH_KIND(kind, KINDS)
    {
        const int64_t deadlines[] = {0, weft_now() - 1, weft_now() + 2 * MS};
        keep(kind, &place);
        for (int i = 0; i < 3; i++) {
            struct user u;
            user_open(&u, kind, &place);
            u.deadline = deadlines[i];
            join(home_spawn(home, &u.frame));
            CHECK(weft_now() >= u.deadline); /* never early */
            CHECK_EQ(u.status, -ETIMEDOUT);
            CHECK_EQ(u.handled, 0);
        }
        give_back(kind, &place);
    }
}

static void end_by(const struct home *home, const struct lock_kind *kind, bool cancel)
{
    char message[80];
    struct user u;
    keep(kind, &place);
    user_open(&u, kind, &place);
    weft_fiber fiber = home_waiting(home, &u.frame);
    CHECK_EQ(cancel ? weft_cancel(fiber) : weft_fiber_interrupt(fiber), 0);
    join(fiber);
    CHECK_EQ(u.status, 77); /* the next step never ran */
    CHECK_EQ(u.handled, 1);
    CHECK_EQ(u.code, cancel ? -ECANCELED : -EINTR);
    CHECK_STR(u.ended.what, kind->name);
    CHECK_STR(u.ended.name, "door");
    snprintf(message, sizeof message, "%s door", kind->name);
    CHECK_STR(u.message, message);
    give_back(kind, &place);
}

EACH_HOME(cancel_of_lock_wait_throws_and_lock_is_not_held)
{
    EACH_KIND(kind, KINDS)
    {
        end_by(home, kind, true);
    }
}

EACH_HOME(interrupt_of_lock_wait_throws_and_lock_is_not_held)
{
    EACH_KIND(kind, KINDS)
    {
        end_by(home, kind, false);
    }
}

EACH_HOME(lock_skips_waiter_that_gave_up)
{
    EACH_KIND(kind, EXCLUSIVE)
    {
        struct user users[3];
        weft_fiber fibers[3];
        keep(kind, &place);
        for (int i = 0; i < 3; i++) {
            user_open(&users[i], kind, &place);
            fibers[i] = home_waiting(home, &users[i].frame);
        }
        CHECK_EQ(weft_cancel(fibers[0]), 0);
        CHECK_EQ(weft_fiber_interrupt(fibers[1]), 0);
        give_back(kind, &place); /* they may still be linked */
        for (int i = 0; i < 3; i++) {
            join(fibers[i]);
        }
        CHECK_EQ(users[0].code, -ECANCELED);
        CHECK_EQ(users[1].code, -EINTR);
        CHECK_EQ(users[2].status, 0);
    }
}

EACH_HOME(cancelled_fiber_waits_for_lock_in_finally)
{
    EACH_KIND(kind, KINDS)
    {
        struct user u;
        keep(kind, &place);
        user_open(&u, kind, &place);
        u.locks_in_finally = true;
        weft_fiber fiber = home_waiting(home, &u.frame);
        CHECK_EQ(weft_cancel(fiber), 0);
        await_state(fiber, WEFT_FIBER_WAITING); /* either of the two waits */
        give_back(kind, &place);
        join(fiber);
    }
}

/* --- frames together with fibers and threads -------------------------------------------------- */

struct taker {
    const struct lock_kind *kind;
    struct place *place;
    atomic_bool *go, locked;
};

static void *takes(void *arg)
{
    struct taker *t = arg;
    CHECK_EQ(t->kind->lock(t->place, WEFT_FOREVER), 0);
    atomic_store(&t->locked, true);
    while (!atomic_load(t->go)) {
        weft_yield();
    }
    t->kind->unlock(t->place);
    return NULL;
}

EACH_HOME(lock_passes_between_thread_frame_and_fiber)
{
    EACH_KIND(kind, EXCLUSIVE)
    {
        atomic_bool thread_goes = false, frame_goes = false, fiber_goes = false;
        struct taker thread = {.kind = kind, .place = &place, .go = &thread_goes};
        struct taker fiber = {.kind = kind, .place = &place, .go = &fiber_goes};
        struct user u;
        pthread_t tid = thread_open(takes, &thread);
        while (!atomic_load(&thread.locked)) {
            sched_yield();
        }
        user_open(&u, kind, &place);
        u.go = &frame_goes;
        weft_fiber frame = home_waiting(home, &u.frame);
        atomic_store(&thread_goes, true);
        thread_close(tid);
        while (!atomic_load(&u.locked)) {
            sched_yield();
        }
        CHECK(is_held_by(kind, &place, frame));
        CHECK_EQ(kind->lock(&place, 0), -ETIMEDOUT);
        weft_fiber other = home_spawn_fn(home, takes, &fiber);
        atomic_store(&frame_goes, true);
        join(frame);
        atomic_store(&fiber_goes, true);
        join(other);
    }
}

/* In a step a frame may also use the try calls. */
struct tries {
    weft_frame frame;
    struct place *place;
    int left;
};

static enum weft_step tries_unlock(weft_frame *f, struct weft_got got);

static enum weft_step tries_lock(weft_frame *f, struct weft_got got)
{
    SELF(tries);
    (void)got;
    if (self->left-- == 0) {
        return weft_frame_return(f, NULL);
    }
    if (weft_mutex_lock(&self->place->mutex, 0) != 0) {
        return weft_frame_yield(f, WEFT_THEN(tries_lock));
    }
    CHECK(weft__mutex_is_mine(&self->place->mutex));
    weft__rwlock_enter_slot(
        weft__rwlock_of(&self->place->rwlock)); /* readers are not counted here */
    CHECK_EQ(weft_rwlock_read(&self->place->rwlock, 0), 0);
    return weft_frame_yield(f, WEFT_THEN(tries_unlock));
}

static enum weft_step tries_unlock(weft_frame *f, struct weft_got got)
{
    SELF(tries);
    CHECK(weft__mutex_is_mine(&self->place->mutex));
    weft_rwlock_read_unlock(&self->place->rwlock);
    weft_mutex_unlock(&self->place->mutex);
    return tries_lock(f, got);
}

static const struct weft_frame_kind trying = {.name = "tries", .start = tries_lock};

EACH_HOME(try_locked_lock_can_be_unlocked_by_step_on_other_worker)
{
    struct tries all[4];
    weft_fiber fibers[4];
    place_open(&place, NULL);
    for (int i = 0; i < 4; i++) {
        all[i] = (struct tries){.place = &place, .left = 300};
        weft_frame_init(&all[i].frame, &trying);
        fibers[i] = home_spawn(home, &all[i].frame);
    }
    for (int i = 0; i < 4; i++) {
        join(fibers[i]);
    }
    place_close(&place);
}

TEST(group_owned_lock_is_shared_by_frames_and_fibers)
{
    struct home home;
    struct place own;
    struct user users[3];
    struct taker fiber;
    weft_fiber fibers[4];
    atomic_bool go = true;
    for (int i = 0; i < EXCLUSIVE; i++) {
        home_open(&home, true);
        place_open(&own, &(struct weft_sync_opts){.name = "own", .group = home.group});
        for (int k = 0; k < 3; k++) {
            user_open(&users[k], &kinds[i], &own);
            users[k].rests = 3;
            fibers[k] = home_spawn(&home, &users[k].frame);
        }
        fiber = (struct taker){.kind = &kinds[i], .place = &own, .go = &go};
        fibers[3] = home_spawn_fn(&home, takes, &fiber);
        for (int k = 0; k < 4; k++) {
            join(fibers[k]);
        }
        weft_mutex_deinit(&own.mutex);
        weft_rwlock_deinit(&own.rwlock);
        home_close(&home);
    }
}
