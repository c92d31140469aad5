/* labels: valgrind */
/* A counter that frames, fibers and threads increment under a lock stays exact, also when waiters
 * give up. */
#include "frame/locks.h"

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
