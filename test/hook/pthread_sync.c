/* pthread mutexes and condition variables between fibers of one worker and of several, and
 * threads. */
/* alike without hooks */
/* not under: tsan */
/* (ThreadSanitizer tracks a mutex by thread, not by fiber, and reports the unlocks that must
 * fail.) */
#include <pthread.h>
#include <sys/socket.h>

#include "hook/hooked.h"

static struct timespec in_ms(clockid_t clock, long ms)
{
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += ms * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static void make(pthread_mutex_t *mutex, int type)
{
    pthread_mutexattr_t attr;
    CHECK_EQ(pthread_mutexattr_init(&attr), 0);
    CHECK_EQ(pthread_mutexattr_settype(&attr, type), 0);
    CHECK_EQ(pthread_mutex_init(mutex, &attr), 0);
    CHECK_EQ(pthread_mutexattr_destroy(&attr), 0);
}

IN_FIBER(hooked_mutex_types_behave_as_pthread_mutexes)
{
    pthread_mutex_t mutex;
    struct timespec past = {0}, wide = {.tv_nsec = 1000000000};
    errno = 77;
    make(&mutex, PTHREAD_MUTEX_RECURSIVE);
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    CHECK_EQ(pthread_mutex_trylock(&mutex), 0);
    CHECK_EQ(pthread_mutex_timedlock(&mutex, &past), 0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    }
    CHECK_EQ(pthread_mutex_unlock(&mutex), EPERM);
    CHECK_EQ(pthread_mutex_destroy(&mutex), 0);
    make(&mutex, PTHREAD_MUTEX_ERRORCHECK);
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    CHECK_EQ(pthread_mutex_lock(&mutex), EDEADLK);
    CHECK_EQ(pthread_mutex_trylock(&mutex), EBUSY);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&mutex), EPERM);
    CHECK_EQ(pthread_mutex_destroy(&mutex), 0);
    make(&mutex, PTHREAD_MUTEX_NORMAL);
    CHECK_EQ(pthread_mutex_lock(&mutex), 0);
    CHECK_EQ(pthread_mutex_trylock(&mutex), EBUSY);
    struct timespec soon = in_ms(CLOCK_REALTIME, 20);
    CHECK_EQ(pthread_mutex_timedlock(&mutex, &soon), ETIMEDOUT);
    soon = in_ms(CLOCK_MONOTONIC, 20);
    CHECK_EQ(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
    CHECK_EQ(pthread_mutex_timedlock(&mutex, &wide), EINVAL);
    CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
    CHECK_EQ(pthread_mutex_destroy(&mutex), 0);
    CHECK_EQ(errno, 77);
}

static void unlock(void *arg)
{
    CHECK_EQ(pthread_mutex_unlock(arg), 0);
}

static pthread_mutex_t handed = PTHREAD_MUTEX_INITIALIZER;

IN_FIBER(hooked_mutex_lock_waits)
{
    struct hooked_peer peer;
    CHECK_EQ(pthread_mutex_lock(&handed), 0);
    hooked_peer_start(&peer, unlock, &handed);
    CHECK_EQ(pthread_mutex_lock(&handed), 0);
    hooked_peer_join(&peer);
    CHECK_EQ(pthread_mutex_unlock(&handed), 0);
}

struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int inside, count, items, ended;
};

static void *enters(void *arg)
{
    struct shared *s = arg;
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
        CHECK_EQ(s->inside++, 0);
        struct timespec time = {.tv_nsec = 50000};
        nanosleep(&time, NULL); /* other fibers run, and try to lock it */
        s->count++;
        CHECK_EQ(--s->inside, 0);
        CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
    }
    return NULL;
}

static void exclude(int type, unsigned workers)
{
    enum { N = 8 };
    struct shared s = {.cond = PTHREAD_COND_INITIALIZER};
    weft_pool *pool;
    weft_fiber fibers[N];
    make(&s.mutex, type);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = workers, .hog_ns = -1}),
             0);
    CHECK_EQ(weft_pool_start(pool), 0);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], enters, &s, NULL), 0);
    }
    enters(&s); /* also from a plain thread */
    for (int i = 0; i < N; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(s.count, 20 * (N + 1));
    CHECK_EQ(pthread_mutex_destroy(&s.mutex), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

TEST(hooked_mutex_excludes_fibers_of_all_workers)
{
    if (!weft_hook_is_loaded()) {
        return; /* deadlock: a fiber would sleep while holding it */
    }
    for (unsigned workers = 1; workers <= 3; workers += 2) {
        exclude(PTHREAD_MUTEX_NORMAL, workers);
        exclude(PTHREAD_MUTEX_RECURSIVE, workers);
        exclude(PTHREAD_MUTEX_ERRORCHECK, workers);
        exclude(PTHREAD_MUTEX_ADAPTIVE_NP, workers);
    }
}

/* --- condition variables ---------------------------------------------------------------------- */

static void add_item(void *arg)
{
    struct shared *s = arg;
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    s->items++;
    CHECK_EQ(pthread_cond_signal(&s->cond), 0);
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
}

static void take_item(struct shared *s)
{
    CHECK_EQ(pthread_mutex_lock(&s->mutex), 0);
    while (s->items == 0) {
        CHECK_EQ(pthread_cond_wait(&s->cond, &s->mutex), 0);
    }
    s->items--;
    CHECK_EQ(pthread_mutex_unlock(&s->mutex), 0);
}

IN_FIBER(hooked_condition_wait_waits_and_times_out)
{
    struct shared s = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    struct hooked_peer peer;
    hooked_peer_start(&peer, add_item, &s);
    take_item(&s);
    hooked_peer_join(&peer);
    CHECK_EQ(pthread_mutex_lock(&s.mutex), 0);
    struct timespec soon = in_ms(CLOCK_REALTIME, 20), wide = {.tv_nsec = -1};
    CHECK_EQ(pthread_cond_timedwait(&s.cond, &s.mutex, &soon), ETIMEDOUT);
    CHECK_EQ(pthread_cond_timedwait(&s.cond, &s.mutex, &wide), EINVAL);
    struct timespec before = {.tv_sec = INT64_MIN / 2, .tv_nsec = 999999999};
    CHECK_EQ(pthread_cond_timedwait(&s.cond, &s.mutex, &before), ETIMEDOUT);
    soon = in_ms(CLOCK_MONOTONIC, 20);
    int64_t start = weft_now();
    CHECK_EQ(pthread_cond_clockwait(&s.cond, &s.mutex, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
    CHECK(hooked_since(start) < 30);
    CHECK_EQ(pthread_mutex_unlock(&s.mutex), 0);
    /* A condition variable may have its own clock. */
    pthread_condattr_t attr;
    pthread_cond_t monotonic;
    CHECK_EQ(pthread_condattr_init(&attr), 0);
    CHECK_EQ(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC), 0);
    CHECK_EQ(pthread_cond_init(&monotonic, &attr), 0);
    CHECK_EQ(pthread_mutex_lock(&s.mutex), 0);
    start = weft_now();
    soon = in_ms(CLOCK_MONOTONIC, 30);
    CHECK_EQ(pthread_cond_timedwait(&monotonic, &s.mutex, &soon), ETIMEDOUT);
    CHECK(hooked_since(start) >= 0.029 && hooked_since(start) < 30);
    CHECK_EQ(pthread_mutex_unlock(&s.mutex), 0);
    CHECK_EQ(pthread_cond_destroy(&monotonic), 0);
    CHECK_EQ(pthread_cond_destroy(&s.cond), 0);
}

static void *taker(void *arg)
{
    take_item(arg);
    return NULL;
}

IN_FIBER(fibers_and_threads_wait_on_same_condition)
{
    enum { N = 10 };
    struct shared s = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    weft_fiber fibers[N];
    pthread_t threads[3];
    if (!weft_hook_is_active()) {
        return;
    }
    for (int i = 0; i < N; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], taker, &s, NULL), 0);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, taker, &s), 0);
    }
    for (int i = 0; i < N + 3; i++) {
        weft_yield();
        add_item(&s);
    }
    for (int i = 0; i < N; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK_EQ(s.items, 0);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], taker, &s, NULL), 0);
    }
    weft_yield();
    CHECK_EQ(pthread_mutex_lock(&s.mutex), 0);
    s.items = N;
    CHECK_EQ(pthread_cond_broadcast(&s.cond), 0);
    CHECK_EQ(pthread_mutex_unlock(&s.mutex), 0);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
}
