/* Locking an uncontended pthread_mutex while a second thread is alive: glibc is faster while there
 * is only one thread. The target of `mutex1`. */
#include "../measure.h"

#include <pthread.h>

enum { ALONE = 20000000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long shared;

static void *live(void *arg)
{
    for (;;)
        pause();
    return arg;
}

int main(void)
{
    pthread_t other;
    pthread_create(&other, NULL, live, NULL);
    uint64_t start = now_ns();
    for (int i = 0; i < ALONE; i++) {
        pthread_mutex_lock(&mutex);
        shared++;
        pthread_mutex_unlock(&mutex);
    }
    report("limit-pthread", "mutex", "1", ns_since(start) / ALONE, "ns/lock");
    return shared != ALONE;
}
