/* labels: valgrind */
/* Mutexes and rwlocks in frames: which waiter gets the lock, which does not, and that no lock is
 * ever lost. In a group and in a pool with two workers. */
#include <sched.h>

#include "frame/fixture.h"
#include "sync/fixture.h"
#include "sync/mutex.h"
#include "sync/rwlock.h"

/* One object of each type; a test uses one of them. */
struct place {
    weft_mutex mutex;
    weft_rwlock rwlock;
};

struct lock_kind {
    const char *name; /* the name of the wait */
    enum weft_step (*await)(weft_frame *f, struct weft_wait *wait, struct place *p,
                            int64_t deadline, const struct weft_resume_point *then);
    int (*lock)(struct place *p, int64_t deadline);
    void (*unlock)(struct place *p);
    weft_fiber (*holder)(const struct place *p); /* NULL: the holder is unknown */
};

static enum weft_step await_mutex(weft_frame *f, struct weft_wait *wait, struct place *p,
                                  int64_t deadline, const struct weft_resume_point *then)
{
    return weft_frame_await_mutex(f, wait, &p->mutex, deadline, then);
}

static int lock_mutex(struct place *p, int64_t deadline)
{
    return weft_mutex_lock(&p->mutex, deadline);
}

static void unlock_mutex(struct place *p)
{
    weft_mutex_unlock(&p->mutex);
}

static weft_fiber mutex_holder(const struct place *p)
{
    return weft__mutex_holder((uint64_t)(uintptr_t)&p->mutex);
}

static enum weft_step await_write(weft_frame *f, struct weft_wait *wait, struct place *p,
                                  int64_t deadline, const struct weft_resume_point *then)
{
    return weft_frame_await_rwlock_write(f, wait, &p->rwlock, deadline, then);
}

static int lock_write(struct place *p, int64_t deadline)
{
    return weft_rwlock_write(&p->rwlock, deadline);
}

static void unlock_write(struct place *p)
{
    weft_rwlock_write_unlock(&p->rwlock);
}

static weft_fiber writer(const struct place *p)
{
    return weft__rwlock_holder((uint64_t)(uintptr_t)&p->rwlock);
}

static enum weft_step await_read(weft_frame *f, struct weft_wait *wait, struct place *p,
                                 int64_t deadline, const struct weft_resume_point *then)
{
    return weft_frame_await_rwlock_read(f, wait, &p->rwlock, deadline, then);
}

static int lock_read(struct place *p, int64_t deadline)
{
    return weft_rwlock_read(&p->rwlock, deadline);
}

static void unlock_read(struct place *p)
{
    weft_rwlock_read_unlock(&p->rwlock);
}

static const struct lock_kind kinds[] = {
    {"mutex", await_mutex, lock_mutex, unlock_mutex, mutex_holder},
    {"rwlock for writing", await_write, lock_write, unlock_write, writer},
    {"rwlock for reading", await_read, lock_read, unlock_read, NULL},
};
#define KINDS 3
#define EXCLUSIVE 2 /* the first two kinds */

/* A query while another thread holds the lock's queue returns "no holder": it is repeated. */
static bool is_held_by(const struct lock_kind *kind, const struct place *p, weft_fiber fiber)
{
    weft_fiber holder;
    for (int i = 0; (holder = kind->holder(p)) == WEFT_NO_FIBER && i < 100000; i++) {
        sched_yield();
    }
    return holder == fiber;
}

static void place_open(struct place *p, const struct weft_sync_opts *opts)
{
    weft_mutex_init(&p->mutex, opts);
    weft_rwlock_init(&p->rwlock, opts);
}

/* Checks at the end of each test that everything is free and nothing waits. */
static void place_close(struct place *p)
{
    CHECK_EQ(weft_mutex_lock(&p->mutex, 0), 0);
    weft_mutex_unlock(&p->mutex);
    CHECK_EQ(weft_rwlock_write(&p->rwlock, 0), 0);
    weft_rwlock_write_unlock(&p->rwlock);
    weft_mutex_deinit(&p->mutex);
    weft_rwlock_deinit(&p->rwlock);
}

/* The calling thread makes a frame of this kind wait: for the rwlock, a writer blocks all. */
static void keep(const struct lock_kind *kind, struct place *p)
{
    CHECK_EQ(kind == &kinds[0] ? lock_mutex(p, 0) : lock_write(p, 0), 0);
}

static void give_back(const struct lock_kind *kind, struct place *p)
{
    (kind == &kinds[0] ? unlock_mutex : unlock_write)(p);
}

/* --- a frame that locks, works, and unlocks in a later step --------------------------------- */

struct user {
    weft_frame frame;
    struct weft_wait wait;
    const struct lock_kind *kind;
    struct place *place;
    const char *name;
    int64_t deadline;
    int rests;       /* steps between lock and unlock */
    atomic_bool *go; /* unlocks only then; NULL: at once */
    int status, code, handled;
    bool holds, locks_in_finally;
    atomic_bool locked;
    struct weft_fiber_ended_wait ended;
    char message[80];
};

static enum weft_step user_locked(weft_frame *f, struct weft_got got);

static enum weft_step user_starts(weft_frame *f, struct weft_got got)
{
    SELF(user);
    (void)got;
    return self->kind->await(f, &self->wait, self->place, self->deadline, WEFT_THEN(user_locked));
}

static enum weft_step user_rests(weft_frame *f, struct weft_got got)
{
    SELF(user);
    (void)got;
    if (self->kind->holder) {
        CHECK(is_held_by(self->kind, self->place, weft_self()));
    }
    if (self->rests-- > 0 || (self->go && !atomic_load(self->go))) {
        return weft_frame_yield(f, WEFT_THEN(user_rests));
    }
    self->holds = false;
    self->kind->unlock(self->place);
    return weft_frame_return(f, NULL);
}

static enum weft_step user_locked(weft_frame *f, struct weft_got got)
{
    SELF(user);
    self->status = got.status;
    if (got.status) {
        return weft_frame_return(f, NULL);
    }
    self->holds = true;
    atomic_store(&self->locked, true);
    if (self->name) {
        notes_add(self->name);
    }
    return user_rests(f, got);
}

static enum weft_step user_handles(weft_frame *f, const weft_error *error)
{
    SELF(user);
    self->handled++;
    self->code = weft_error_code(error);
    CHECK(!self->holds);
    CHECK_EQ(weft_fiber_ended_wait(&self->ended), 0);
    snprintf(self->message, sizeof self->message, "%s", weft_error_message(error));
    return weft_frame_return(f, NULL);
}

static enum weft_step user_unlocks(weft_frame *f, struct weft_got got)
{
    SELF(user);
    CHECK_EQ(got.status, 0);
    self->kind->unlock(self->place);
    return weft_frame_done(f);
}

static enum weft_step user_ends(weft_frame *f)
{
    SELF(user);
    if (self->locks_in_finally) {
        return self->kind->await(f, &self->wait, self->place, WEFT_FOREVER,
                                 WEFT_THEN(user_unlocks));
    }
    return weft_frame_done(f);
}

static const struct weft_frame_kind using = {
    .name = "user", .start = user_starts, .handle = user_handles, .finally = user_ends};

static void user_open(struct user *u, const struct lock_kind *kind, struct place *p)
{
    *u = (struct user){.kind = kind, .place = p, .deadline = WEFT_FOREVER, .status = 77};
    weft_frame_init(&u->frame, &using);
}

static void join(weft_fiber fiber)
{
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
}

#define EACH_KIND(kind, n)                                                                         \
    for (const struct lock_kind *kind = kinds;                                                     \
         kind < kinds + (n) && (place_open(&place, &named), 1); place_close(&place), kind++)

static struct place place;
static const struct weft_sync_opts named = {.name = "door"};

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

/* --- observers ------------------------------------------------------------------------------- */

/* Holds `first`, then waits for `second`. */
struct crosser {
    weft_frame frame;
    struct weft_wait wait;
    const struct lock_kind *first_kind, *second_kind;
    struct place *first, *second;
    atomic_bool holds, *go;
};

static enum weft_step crosser_has_both(weft_frame *f, struct weft_got got)
{
    SELF(crosser);
    CHECK_EQ(got.status, 0);
    self->second_kind->unlock(self->second);
    return weft_frame_return(f, NULL);
}

static enum weft_step crosser_has_one(weft_frame *f, struct weft_got got)
{
    SELF(crosser);
    (void)got;
    atomic_store(&self->holds, true);
    if (!atomic_load(self->go)) {
        return weft_frame_yield(f, WEFT_THEN(crosser_has_one));
    }
    return self->second_kind->await(f, &self->wait, self->second, WEFT_FOREVER,
                                    WEFT_THEN(crosser_has_both));
}

static enum weft_step crosser_starts(weft_frame *f, struct weft_got got)
{
    SELF(crosser);
    (void)got;
    return self->first_kind->await(f, &self->wait, self->first, WEFT_FOREVER,
                                   WEFT_THEN(crosser_has_one));
}

static enum weft_step crosser_handles(weft_frame *f, const weft_error *error)
{
    CHECK_EQ(weft_error_code(error), -ECANCELED);
    return weft_frame_return(f, NULL);
}

static enum weft_step crosser_ends(weft_frame *f)
{
    SELF(crosser);
    self->first_kind->unlock(self->first);
    return weft_frame_done(f);
}

static const struct weft_frame_kind crossing = {
    .name = "crosser", .start = crosser_starts, .handle = crosser_handles, .finally = crosser_ends};

static size_t cycles_in(char *text, size_t size)
{
    FILE *out = fmemopen(text, size, "w");
    size_t n = weft_wait_cycles_dump(out);
    fclose(out);
    return n;
}

EACH_HOME(deadlock_cycle_of_frames_holding_locks_is_named)
{
    struct place a, b;
    atomic_bool go = false;
    char text[2048] = "";
    place_open(&a, &(struct weft_sync_opts){.name = "left"});
    place_open(&b, &(struct weft_sync_opts){.name = "right"});
    struct crosser x = {
        .first_kind = &kinds[0], .first = &a, .second_kind = &kinds[1], .second = &b, .go = &go};
    struct crosser y = {
        .first_kind = &kinds[1], .first = &b, .second_kind = &kinds[0], .second = &a, .go = &go};
    weft_frame_init(&x.frame, &crossing);
    weft_frame_init(&y.frame, &crossing);
    weft_fiber fx = home_spawn(home, &x.frame), fy = home_spawn(home, &y.frame);
    while (!atomic_load(&x.holds) || !atomic_load(&y.holds)) {
        sched_yield();
    }
    CHECK_EQ(weft_wait_cycles_dump(NULL), 0);
    atomic_store(&go, true);
    await_state(fx, WEFT_FIBER_WAITING);
    await_state(fy, WEFT_FIBER_WAITING);
    CHECK_EQ(cycles_in(text, sizeof text), 1);
    CHECK(strstr(text, "2 fibers wait for one another"));
    CHECK(strstr(text, "mutex") && strstr(text, "left"));
    CHECK(strstr(text, "rwlock for writing") && strstr(text, "right"));
    CHECK_EQ(weft_cancel(fx), 0); /* it releases its mutex to the other */
    join(fx);
    join(fy);
    CHECK_EQ(weft_wait_cycles_dump(NULL), 0);
    place_close(&a);
    place_close(&b);
}

static char *dump_text(void)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    CHECK_EQ(weft_dump(out, &(struct weft_dump_opts){.no_frames = true}), 0);
    fclose(out);
    return text;
}

EACH_HOME(dump_names_frame_fiber_holding_lock)
{
    EACH_KIND(kind, EXCLUSIVE)
    {
        struct user holds, waits;
        atomic_bool go = false;
        char *text = NULL, id[32], what[64];
        bool found = false;
        user_open(&holds, kind, &place);
        holds.go = &go;
        weft_fiber holder = home_spawn(home, &holds.frame);
        while (!atomic_load(&holds.locked)) {
            sched_yield();
        }
        user_open(&waits, kind, &place);
        weft_fiber waiter = home_waiting(home, &waits.frame);
        weft_fiber_format(holder, id, sizeof id);
        snprintf(what, sizeof what, "held-by=%s", id);
        for (int i = 0; i < 1000 && !found; i++) { /* the holder queries the lock all the time */
            text = dump_text();
            found = strstr(text, what) && strstr(text, kind->name);
            free(text);
        }
        CHECK(found);
        atomic_store(&go, true);
        join(holder);
        join(waiter);
    }
}

/* --- misuse ---------------------------------------------------------------------------------- */

/* A child with one pool or group runs the frame. */
struct mistake {
    weft_frame frame;
    struct weft_wait wait;
    const struct lock_kind *kind;
    weft_mutex other;
};

static enum weft_step goes_on(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_return(f, NULL);
}

static enum weft_step locks_again(weft_frame *f, struct weft_got got)
{
    struct mistake *self = (struct mistake *)f;
    (void)got;
    return self->kind->await(f, &self->wait, &place, WEFT_FOREVER, WEFT_THEN(goes_on));
}

static enum weft_step locks_twice(weft_frame *f, struct weft_got got)
{
    struct mistake *self = (struct mistake *)f;
    (void)got;
    return self->kind->await(f, &self->wait, &place, WEFT_FOREVER, WEFT_THEN(locks_again));
}

static enum weft_step unlocks_anothers(weft_frame *f, struct weft_got got)
{
    struct mistake *self = (struct mistake *)f;
    (void)got;
    self->kind->unlock(&place);
    return weft_frame_return(f, NULL);
}

static enum weft_step locks_against_rank(weft_frame *f, struct weft_got got)
{
    struct mistake *self = (struct mistake *)f;
    (void)got;
    return weft_frame_await_mutex(f, &self->wait, &self->other, WEFT_FOREVER, WEFT_THEN(goes_on));
}

static enum weft_step locks_ranked(weft_frame *f, struct weft_got got)
{
    struct mistake *self = (struct mistake *)f;
    (void)got;
    return weft_frame_await_mutex(f, &self->wait, &place.mutex, WEFT_FOREVER,
                                  WEFT_THEN(locks_against_rank));
}

struct mistaken {
    weft_step_fn start;
    const struct lock_kind *kind;
    bool kept;
};

static void makes_mistake(void *arg)
{
    const struct mistaken *how = arg;
    struct weft_frame_kind kind = {.name = "mistake", .start = how->start};
    struct mistake m = {.kind = how->kind};
    struct home home;
    place_open(&place, &(struct weft_sync_opts){.name = "door",
                                                .rank = how->start == locks_ranked ? 5 : 0});
    weft_mutex_init(&m.other, &(struct weft_sync_opts){.name = "lower", .rank = 4});
    if (how->kept) {
        keep(how->kind, &place);
    }
    home_open(&home, false);
    weft_frame_init(&m.frame, &kind);
    weft_fiber fiber = home_spawn(&home, &m.frame);
    if (how->kept && how->start == locks_again) {
        await_state(fiber, WEFT_FIBER_WAITING);
        give_back(how->kind, &place);
    }
    (void)!weft_join(fiber, NULL, WEFT_FOREVER);
    home_close(&home);
}

TEST(second_lock_by_same_frame_fiber_aborts)
{
    must_stop(makes_mistake, &(struct mistaken){locks_twice, &kinds[0], false},
              "locks mutex door, which it holds already");
    must_stop(makes_mistake, &(struct mistaken){locks_twice, &kinds[1], false},
              "locks rwlock door, which it holds already");
}

TEST(unlock_of_foreign_lock_by_frame_aborts)
{
    must_stop(makes_mistake, &(struct mistaken){unlocks_anothers, &kinds[0], true},
              "unlocks mutex door, which is held by thread");
    must_stop(makes_mistake, &(struct mistaken){unlocks_anothers, &kinds[1], true},
              "unlocks rwlock door, which is held by thread");
}

TEST(lock_rank_violation_by_frame_aborts_in_debug_build)
{
    if (WEFT_DEBUG) {
        must_stop(makes_mistake, &(struct mistaken){locks_ranked, &kinds[0], false},
                  "locks mutex lower of rank 4 while it holds mutex door of rank 5");
    }
}

static void ends_with_the_lock(void *arg)
{
    makes_mistake(arg);
    CHECK_EQ(weft_mutex_lock(&place.mutex, 0), -ETIMEDOUT);
    CHECK(weft__mutex_holder((uint64_t)(uintptr_t)&place.mutex) == WEFT_NO_FIBER);
}

/* The frame found the mutex free, or was handed it. */
TEST(frame_fiber_ending_with_locked_mutex_is_reported)
{
    for (int waits = 0; waits < 2; waits++) {
        char err[CHECK_ERR];
        struct mistaken how = {locks_again, &kinds[0], waits};
        CHECK_EQ(check_child(ends_with_the_lock, &how, err, sizeof err), 0);
        CHECK(strstr(err, "ended while it held mutex door"));
    }
}

/* Waits for a lock, is handed it, and then makes a mistake: the acquired lock is released. */
struct wrong {
    weft_frame frame;
    struct weft_wait wait;
    const struct lock_kind *kind;
    weft_sem *sem;
    atomic_bool waits, given;
};

static enum weft_step waits_and_returns(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    if (self->sem) {
        (void)weft_frame_await_sem(f, &self->wait, self->sem, 2, WEFT_FOREVER, WEFT_THEN(goes_on));
    } else {
        (void)self->kind->await(f, &self->wait, &place, WEFT_FOREVER, WEFT_THEN(goes_on));
    }
    atomic_store(&self->waits, true);
    while (!atomic_load(&self->given)) {
        sched_yield();
    }
    return weft_frame_return(f, NULL);
}

static const struct weft_frame_kind wrong_kind = {.name = "wrong", .start = waits_and_returns};

static void run_wrong(struct wrong *w, bool give)
{
    struct home home;
    weft_sem sem;
    home_open(&home, true);
    weft_sem_init(&sem, 0, NULL);
    w->sem = w->kind ? NULL : &sem;
    weft_frame_init(&w->frame, &wrong_kind);
    weft_fiber fiber = home_spawn(&home, &w->frame);
    while (!atomic_load(&w->waits)) {
        sched_yield();
    }
    if (give && w->kind) {
        give_back(w->kind, &place);
    } else if (give) {
        weft_sem_release(&sem, 2);
    }
    atomic_store(&w->given, true);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), -ENOTRECOVERABLE);
    CHECK_EQ(weft_sem_permits(&sem), give && !w->kind ? 2 : 0);
    CHECK_EQ(take_reports(), 1);
    home_close(&home);
    weft_sem_deinit(&sem);
}

TEST(lock_handed_to_step_doing_something_else_is_released)
{
    for (int give = 0; give < 2; give++) {
        EACH_KIND(kind, KINDS)
        {
            keep(kind, &place);
            run_wrong(&(struct wrong){.kind = kind}, give);
            if (!give) {
                give_back(kind, &place);
            }
        }
        run_wrong(&(struct wrong){.kind = NULL}, give);
    }
}

/* --- no update is lost ------------------------------------------------------------------------ */

enum { FRAMES = 6, FIBERS = 3, THREADS = 2, ROUNDS = 150 };

static long counted; /* plain: the lock must guard it */
static atomic_long increments;
static atomic_bool over;

/* Reads, waits in the middle, writes: two at once would lose one update. A frame may be interrupted
 * there, and then does not count. */
struct section {
    weft_frame frame;
    struct weft_wait wait;
    const struct lock_kind *kind;
    int64_t deadline;
    uint32_t dice;
    long seen;
    bool holds;
};

static enum weft_step section_counts(weft_frame *f, struct weft_got got)
{
    SELF(section);
    (void)got;
    counted = self->seen + 1;
    atomic_fetch_add(&increments, 1);
    return weft_frame_return(f, NULL);
}

static enum weft_step section_locked(weft_frame *f, struct weft_got got)
{
    SELF(section);
    if (got.status) {
        CHECK_EQ(got.status, -ETIMEDOUT);
        return weft_frame_return(f, NULL);
    }
    self->holds = true;
    if (self->kind == &kinds[2]) {
        return weft_frame_return(f, NULL); /* it only reads */
    }
    self->seen = counted;
    switch (self->dice % 4) {
    case 0:
        return weft_frame_yield(f, WEFT_THEN(section_counts));
    case 1:
        return weft_frame_sleep(f, weft_after(self->dice % 20000), WEFT_THEN(section_counts));
    default:
        return section_counts(f, got);
    }
}

static enum weft_step section_starts(weft_frame *f, struct weft_got got)
{
    SELF(section);
    (void)got;
    return self->kind->await(f, &self->wait, &place, self->deadline, WEFT_THEN(section_locked));
}

static enum weft_step section_ends(weft_frame *f)
{
    SELF(section);
    if (self->holds) {
        self->kind->unlock(&place);
    }
    return weft_frame_done(f);
}

static const struct weft_frame_kind section_kind = {
    .name = "section", .start = section_starts, .finally = section_ends};

struct counter {
    weft_frame frame;
    struct section section;
    bool mutex;
    uint64_t dice;
    int left;
};

static const struct lock_kind *some_kind(bool mutex, uint32_t dice)
{
    return &kinds[mutex ? 0 : 1 + dice % 2];
}

static int64_t some_deadline(uint32_t dice)
{
    return dice % 4 == 0 ? 0 : dice % 4 == 1 ? weft_after(dice % 50000) : WEFT_FOREVER;
}

static enum weft_step counter_goes(weft_frame *f, struct weft_got got)
{
    SELF(counter);
    CHECK(got.status == 0 || got.status == -EINTR || got.status == -ECANCELED);
    if (self->left-- == 0) {
        return weft_frame_return(f, NULL);
    }
    self->section = (struct section){.kind = some_kind(self->mutex, dice(&self->dice)),
                                     .deadline = some_deadline(dice(&self->dice)),
                                     .dice = dice(&self->dice)};
    weft_frame_init(&self->section.frame, &section_kind);
    return weft_frame_try(f, &self->section.frame, WEFT_THEN(counter_goes));
}

static const struct weft_frame_kind counter_kind = {.name = "counter", .start = counter_goes};

struct mixed {
    bool mutex;
    uint64_t dice;
};

static void *counts(void *arg)
{
    struct mixed *m = arg;
    for (int i = 0; i < ROUNDS; i++) {
        const struct lock_kind *kind = some_kind(m->mutex, dice(&m->dice));
        int err = kind->lock(&place, some_deadline(dice(&m->dice)));
        if (err) {
            CHECK(err == -ETIMEDOUT || err == -EINTR || err == -ECANCELED);
            continue;
        }
        if (kind != &kinds[2]) {
            long seen = counted;
            if (dice(&m->dice) % 4 == 0) {
                weft_yield();
            }
            counted = seen + 1;
            atomic_fetch_add(&increments, 1);
        }
        kind->unlock(&place);
    }
    return NULL;
}

static weft_fiber disturbed[FRAMES + FIBERS];

static void *disturbs(void *arg)
{
    uint64_t state = check_seed() + 7;
    while (!atomic_load(&over)) {
        weft_fiber_interrupt(disturbed[dice(&state) % (FRAMES + FIBERS)]);
        if (dice(&state) % 64 == 0) { /* one frame and one fiber are cancelled at some time */
            weft_cancel(disturbed[dice(&state) % 2 * FRAMES]);
        }
        sched_yield();
    }
    return arg;
}

static void run_mixed(struct home *home, bool mutex)
{
    struct counter counters[FRAMES];
    struct mixed others[FIBERS + THREADS];
    pthread_t threads[THREADS];
    place_open(&place, NULL);
    counted = 0;
    atomic_store(&increments, 0);
    atomic_store(&over, false);
    for (int i = 0; i < FRAMES; i++) {
        counters[i] =
            (struct counter){.mutex = mutex, .dice = check_seed() + (uint64_t)i, .left = ROUNDS};
        weft_frame_init(&counters[i].frame, &counter_kind);
        disturbed[i] = home_spawn(home, &counters[i].frame);
    }
    for (int i = 0; i < FIBERS + THREADS; i++) {
        others[i] = (struct mixed){mutex, check_seed() + 100 + (uint64_t)i};
        if (i < FIBERS) {
            disturbed[FRAMES + i] = home_spawn_fn(home, counts, &others[i]);
        } else {
            threads[i - FIBERS] = thread_open(counts, &others[i]);
        }
    }
    pthread_t disturber = thread_open(disturbs, NULL);
    for (int i = 0; i < FRAMES + FIBERS; i++) {
        join(disturbed[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        thread_close(threads[i]);
    }
    atomic_store(&over, true);
    thread_close(disturber);
    CHECK_EQ(counted, atomic_load(&increments));
    CHECK(counted > 0);
    place_close(&place);
}

EACH_HOME(mutex_guarded_counter_is_exact_when_waiters_give_up)
{
    run_mixed(home, true);
}

EACH_HOME(rwlock_guarded_counter_is_exact_when_waiters_give_up)
{
    run_mixed(home, false);
}
