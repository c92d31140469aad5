/* For tests of locks in frames: the kinds of locks, and a frame that locks and unlocks. */
#ifndef WEFT_TEST_FRAME_LOCKS_H
#define WEFT_TEST_FRAME_LOCKS_H

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

__attribute__((unused)) static enum weft_step await_mutex(weft_frame *f, struct weft_wait *wait,
                                                          struct place *p, int64_t deadline,
                                                          const struct weft_resume_point *then)
{
    return weft_frame_await_mutex(f, wait, &p->mutex, deadline, then);
}

__attribute__((unused)) static int lock_mutex(struct place *p, int64_t deadline)
{
    return weft_mutex_lock(&p->mutex, deadline);
}

__attribute__((unused)) static void unlock_mutex(struct place *p)
{
    weft_mutex_unlock(&p->mutex);
}

__attribute__((unused)) static weft_fiber mutex_holder(const struct place *p)
{
    return weft__mutex_holder((uint64_t)(uintptr_t)&p->mutex);
}

__attribute__((unused)) static enum weft_step await_write(weft_frame *f, struct weft_wait *wait,
                                                          struct place *p, int64_t deadline,
                                                          const struct weft_resume_point *then)
{
    return weft_frame_await_rwlock_write(f, wait, &p->rwlock, deadline, then);
}

__attribute__((unused)) static int lock_write(struct place *p, int64_t deadline)
{
    return weft_rwlock_write(&p->rwlock, deadline);
}

__attribute__((unused)) static void unlock_write(struct place *p)
{
    weft_rwlock_write_unlock(&p->rwlock);
}

__attribute__((unused)) static weft_fiber writer(const struct place *p)
{
    return weft__rwlock_holder((uint64_t)(uintptr_t)&p->rwlock);
}

__attribute__((unused)) static enum weft_step await_read(weft_frame *f, struct weft_wait *wait,
                                                         struct place *p, int64_t deadline,
                                                         const struct weft_resume_point *then)
{
    return weft_frame_await_rwlock_read(f, wait, &p->rwlock, deadline, then);
}

__attribute__((unused)) static int lock_read(struct place *p, int64_t deadline)
{
    return weft_rwlock_read(&p->rwlock, deadline);
}

__attribute__((unused)) static void unlock_read(struct place *p)
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
__attribute__((unused)) static bool is_held_by(const struct lock_kind *kind, const struct place *p,
                                               weft_fiber fiber)
{
    weft_fiber holder;
    for (int i = 0; (holder = kind->holder(p)) == WEFT_NO_FIBER && i < 100000; i++) {
        sched_yield();
    }
    return holder == fiber;
}

__attribute__((unused)) static void place_open(struct place *p, const struct weft_sync_opts *opts)
{
    weft_mutex_init(&p->mutex, opts);
    weft_rwlock_init(&p->rwlock, opts);
}

/* Checks at the end of each test that everything is free and nothing waits. */
__attribute__((unused)) static void place_close(struct place *p)
{
    CHECK_EQ(weft_mutex_lock(&p->mutex, 0), 0);
    weft_mutex_unlock(&p->mutex);
    CHECK_EQ(weft_rwlock_write(&p->rwlock, 0), 0);
    weft_rwlock_write_unlock(&p->rwlock);
    weft_mutex_deinit(&p->mutex);
    weft_rwlock_deinit(&p->rwlock);
}

/* The calling thread makes a frame of this kind wait: for the rwlock, a writer blocks all. */
__attribute__((unused)) static void keep(const struct lock_kind *kind, struct place *p)
{
    CHECK_EQ(kind == &kinds[0] ? lock_mutex(p, 0) : lock_write(p, 0), 0);
}

__attribute__((unused)) static void give_back(const struct lock_kind *kind, struct place *p)
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

__attribute__((unused)) static enum weft_step user_starts(weft_frame *f, struct weft_got got)
{
    SELF(user);
    (void)got;
    return self->kind->await(f, &self->wait, self->place, self->deadline, WEFT_THEN(user_locked));
}

__attribute__((unused)) static enum weft_step user_rests(weft_frame *f, struct weft_got got)
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

__attribute__((unused)) static enum weft_step user_locked(weft_frame *f, struct weft_got got)
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

__attribute__((unused)) static enum weft_step user_handles(weft_frame *f, const weft_error *error)
{
    SELF(user);
    self->handled++;
    self->code = weft_error_code(error);
    CHECK(!self->holds);
    CHECK_EQ(weft_fiber_ended_wait(&self->ended), 0);
    snprintf(self->message, sizeof self->message, "%s", weft_error_message(error));
    return weft_frame_return(f, NULL);
}

__attribute__((unused)) static enum weft_step user_unlocks(weft_frame *f, struct weft_got got)
{
    SELF(user);
    CHECK_EQ(got.status, 0);
    self->kind->unlock(self->place);
    return weft_frame_done(f);
}

__attribute__((unused)) static enum weft_step user_ends(weft_frame *f)
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

__attribute__((unused)) static void user_open(struct user *u, const struct lock_kind *kind,
                                              struct place *p)
{
    *u = (struct user){.kind = kind, .place = p, .deadline = WEFT_FOREVER, .status = 77};
    weft_frame_init(&u->frame, &using);
}

__attribute__((unused)) static void join(weft_fiber fiber)
{
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
}

#define EACH_KIND(kind, n)                                                                         \
    for (const struct lock_kind *kind = kinds;                                                     \
         kind < kinds + (n) && (place_open(&place, &named), 1); place_close(&place), kind++)

__attribute__((unused)) static struct place place;
static const struct weft_sync_opts named = {.name = "door"};

#endif
