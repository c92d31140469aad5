/* labels: valgrind */
/* Locks held by frames: deadlock cycles and dumps name the holder, and misuse is reported. */
#include "frame/locks.h"

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
