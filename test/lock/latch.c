#include <pthread.h>

#include "check.h"
#include "lock/latch.h"

static struct weft__latch latch;
static long counted; /* plain: the latch alone protects it */

TEST(latch_is_acquired_once)
{
    CHECK(weft__latch_try(&latch));
    CHECK(!weft__latch_try(&latch));
    weft__latch_unlock(&latch);
    weft__latch_lock(&latch);
    CHECK(!weft__latch_try(&latch));
    weft__latch_unlock(&latch);
}

static void *count(void *arg)
{
    for (long i = 0; i < check_scale(20000); i++) {
        weft__latch_lock(&latch);
        counted++;
        weft__latch_unlock(&latch);
    }
    return arg;
}

TEST(latch_excludes_more_threads_than_cpus)
{
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    counted = 0;
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, count, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    CHECK_EQ(counted, THREADS * check_scale(20000));
}
