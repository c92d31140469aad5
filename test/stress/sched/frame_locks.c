/* A mutex, an rwlock and a semaphore used by frame fibers of a pool and of a group, fibers with a stack and
 * plain threads, with deadlines, cancels and interrupts. Every entered section counts exactly once,
 * readers see complete writes, and in the end the lock is free. Some waits have no time limit, so
 * that a lock handed to a waiter that had left is a stall, which the watchdog detects. */
#include "pool/fixture.h"
#include "stress/watchdog.h"

#include "sync/rwlock.h"

enum { FRAMES = 16, FIBERS = 8, THREADS = 2, ROUNDS = 10000 };
enum what { MUTEX, WRITE, READ, PERMITS };

static weft_mutex mutex;
static weft_rwlock rwlock;
static weft_sem permits; /* of 2; a section takes both */
static long left, right; /* plain: the lock must guard them */
static atomic_long writes;
static weft_fiber all[FRAMES + FIBERS];
static atomic_bool over;
static enum what tested; /* WRITE: also READ */

static enum what choose(uint32_t dice)
{
    return tested == WRITE && dice % 4 ? READ : tested;
}

static int64_t some_deadline(uint32_t dice)
{
    return dice % 8 == 0 ? 0 : dice % 8 == 1 ? weft_after(dice % 100000) : WEFT_FOREVER;
}

static int lock(enum what what, int64_t deadline)
{
    return what == MUTEX     ? weft_mutex_lock(&mutex, deadline)
           : what == WRITE   ? weft_rwlock_write(&rwlock, deadline)
           : what == PERMITS ? weft_sem_acquire(&permits, 2, deadline)
                             : weft_rwlock_read(&rwlock, deadline);
}

static void unlock(enum what what)
{
    if (what == MUTEX) {
        weft_mutex_unlock(&mutex);
    } else if (what == WRITE) {
        weft_rwlock_write_unlock(&rwlock);
    } else if (what == PERMITS) {
        weft_sem_release(&permits, 1); /* one by one: the first does not suffice */
        weft_sem_release(&permits, 1);
    } else {
        weft_rwlock_read_unlock(&rwlock);
    }
}

static void begin(enum what what)
{
    CHECK_EQ(left, right);
    if (what != READ) {
        left++;
    }
}

static void end(enum what what)
{
    if (what != READ) {
        right++;
        atomic_fetch_add_explicit(&writes, 1, memory_order_relaxed);
    }
    CHECK_EQ(left, right);
}

/* --- frames -------------------------------------------------------------------------------- */

struct section {
    weft_frame frame;
    struct weft_wait wait;
    enum what what;
    int64_t deadline;
    uint32_t dice;
    bool holds;
};

static enum weft_step section_goes_on(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_return(f, NULL);
}

static enum weft_step section_locked(weft_frame *f, struct weft_got got)
{
    struct section *self = (struct section *)f;
    if (got.status) {
        CHECK_EQ(got.status, -ETIMEDOUT);
        return weft_frame_return(f, NULL);
    }
    self->holds = true;
    begin(self->what);
    switch (self->dice % 8) {
    case 0:
        return weft_frame_yield(f, WEFT_THEN(section_goes_on));
    case 1: /* which may be interrupted; finally ends the section */
        return weft_frame_sleep(f, weft_after(self->dice % 20000), WEFT_THEN(section_goes_on));
    default:
        return weft_frame_return(f, NULL);
    }
}

static enum weft_step section_starts(weft_frame *f, struct weft_got got)
{
    struct section *self = (struct section *)f;
    const struct weft_resume_point *then = WEFT_THEN(section_locked);
    (void)got;
    if (self->what == MUTEX) {
        return weft_frame_await_mutex(f, &self->wait, &mutex, self->deadline, then);
    }
    if (self->what == PERMITS) {
        return weft_frame_await_sem(f, &self->wait, &permits, 2, self->deadline, then);
    }
    if (self->dice % 32 == 9) {
        weft__rwlock_enter_slot(weft__rwlock_of(&rwlock)); /* as after many calls on one thread */
    }
    return self->what == WRITE
               ? weft_frame_await_rwlock_write(f, &self->wait, &rwlock, self->deadline, then)
               : weft_frame_await_rwlock_read(f, &self->wait, &rwlock, self->deadline, then);
}

static enum weft_step section_ends(weft_frame *f)
{
    struct section *self = (struct section *)f;
    if (self->holds) {
        end(self->what);
        unlock(self->what);
    }
    return weft_frame_done(f);
}

static const struct weft_frame_kind section_kind = {
    .name = "section", .start = section_starts, .finally = section_ends};

struct user {
    weft_frame frame;
    struct section section;
    uint64_t dice;
    long left;
};

static enum weft_step user_goes(weft_frame *f, struct weft_got got)
{
    struct user *self = (struct user *)f;
    CHECK(got.status == 0 || got.status == -EINTR || got.status == -ECANCELED);
    watchdog_progress();
    if (self->left-- == 0) {
        return weft_frame_return(f, NULL);
    }
    self->section = (struct section){.what = choose(dice(&self->dice)),
                                     .deadline = some_deadline(dice(&self->dice)),
                                     .dice = dice(&self->dice)};
    weft_frame_init(&self->section.frame, &section_kind);
    return weft_frame_try(f, &self->section.frame, WEFT_THEN(user_goes));
}

static const struct weft_frame_kind user_kind = {.name = "user", .start = user_goes};

/* --- fibers and threads -------------------------------------------------------------------- */

static void *uses(void *arg)
{
    uint64_t state = check_seed() + (uint64_t)(uintptr_t)arg;
    for (long i = 0; i < check_scale(ROUNDS); i++) {
        enum what what = choose(dice(&state));
        int err = lock(what, some_deadline(dice(&state)));
        CHECK(err == 0 || err == -ETIMEDOUT || err == -EINTR || err == -ECANCELED);
        if (err == 0) {
            begin(what);
            if (dice(&state) % 8 == 0) {
                weft_yield();
            }
            end(what);
            unlock(what);
        }
        watchdog_progress();
    }
    return NULL;
}

/* Interrupts all fibers in turn; sometimes cancels one in eight. */
static void *disturbs(void *arg)
{
    uint64_t state = check_seed() + 77;
    while (!atomic_load(&over)) {
        weft_fiber_interrupt(all[dice(&state) % (FRAMES + FIBERS)]);
        if (dice(&state) % 256 == 0) {
            weft_cancel(all[dice(&state) % (FRAMES + FIBERS) / 8 * 8]);
        }
        sched_yield();
    }
    return arg;
}

static void run(const char *name, enum what what)
{
    static struct user users[FRAMES];
    pthread_t threads[THREADS];
    weft_dispatcher *d;
    weft_group *group;
    watchdog_start(name);
    tested = what;
    left = right = 0;
    atomic_store(&writes, 0);
    atomic_store(&over, false);
    weft_mutex_init(&mutex, NULL);
    weft_rwlock_init(&rwlock, NULL);
    weft_sem_init(&permits, 2, NULL);
    weft_pool *pool = watched_open(&(struct weft_pool_opts){.workers = 2});
    CHECK_EQ(weft_dispatcher_create(&d, NULL), 0);
    CHECK_EQ(weft_dispatcher_start(d), 0);
    CHECK_EQ(weft_group_create(d, &group, NULL), 0);
    for (int i = 0; i < FRAMES; i++) {
        users[i] = (struct user){.dice = check_seed() + (uint64_t)i, .left = check_scale(ROUNDS)};
        weft_frame_init(&users[i].frame, &user_kind);
        CHECK_EQ(i % 4 ? weft_pool_spawn_frame(pool, &all[i], &users[i].frame, NULL)
                       : weft_group_spawn_frame(group, &all[i], &users[i].frame, NULL),
                 0);
    }
    for (int i = 0; i < FIBERS; i++) {
        void *seed = (void *)(intptr_t)(100 + i);
        CHECK_EQ(i % 4 ? weft_pool_spawn(pool, &all[FRAMES + i], uses, seed, NULL)
                       : weft_group_spawn(group, &all[FRAMES + i], uses, seed, NULL),
                 0);
    }
    for (int i = 0; i < THREADS; i++) {
        threads[i] = thread_open(uses, (void *)(intptr_t)(200 + i));
    }
    pthread_t disturber = thread_open(disturbs, NULL);
    for (int i = 0; i < FRAMES + FIBERS; i++) {
        CHECK_EQ(weft_join(all[i], NULL, WEFT_FOREVER), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        thread_close(threads[i]);
    }
    atomic_store(&over, true);
    thread_close(disturber);
    CHECK_EQ(left, atomic_load(&writes));
    CHECK_EQ(right, left);
    CHECK_EQ(weft_mutex_lock(&mutex, 0), 0);
    weft_mutex_unlock(&mutex);
    CHECK_EQ(weft_rwlock_write(&rwlock, 0), 0);
    weft_rwlock_write_unlock(&rwlock);
    CHECK_EQ(weft_sem_permits(&permits), 2);
    weft_mutex_deinit(&mutex);
    weft_rwlock_deinit(&rwlock);
    weft_sem_deinit(&permits);
    CHECK_EQ(weft_dispatcher_stop(d, NULL, 0, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(d);
    watched_close(pool);
    watchdog_stop();
}

TEST(mutex_shared_with_frames_is_neither_lost_nor_doubled)
{
    run("mutex", MUTEX);
}

TEST(rwlock_shared_with_frames_is_neither_lost_nor_doubled)
{
    run("rwlock", WRITE);
}

TEST(semaphore_shared_with_frames_is_neither_lost_nor_doubled)
{
    run("semaphore", PERMITS);
}
