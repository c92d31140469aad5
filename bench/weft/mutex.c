/* Locking a mutex. usage: mutex 1 | mutex 8
 *   1: one fiber locks and unlocks without contention, a second thread is alive
 *   8: 8 fibers on 2 workers compete for it with a short section; also prints the longest wait
 */
#include "program.h"

#include <weft/sync.h>

enum { ALONE = 20000000, FIBERS = 8, EACH = 500000 };

static weft_mutex mutex;
static long shared[4];
static uint64_t longest[FIBERS];
static struct countdown ended;

static void *measure_alone(void *arg)
{
    uint64_t start = now_ns();
    for (int i = 0; i < ALONE; i++) {
        must(weft_mutex_lock(&mutex, WEFT_FOREVER), "weft_mutex_lock");
        shared[0]++;
        weft_mutex_unlock(&mutex);
    }
    report("weft", "mutex", "1", ns_since(start) / ALONE, "ns/lock");
    return arg;
}

/* The clock is read only around every 16th lock: it would cost more than the lock. */
static void *contend(void *arg)
{
    uint64_t *worst = arg;
    for (int i = 0; i < EACH; i++) {
        uint64_t start = i % 16 == 0 ? now_ns() : 0;
        must(weft_mutex_lock(&mutex, WEFT_FOREVER), "weft_mutex_lock");
        if (start && now_ns() - start > *worst)
            *worst = now_ns() - start;
        for (int k = 0; k < 4; k++)
            shared[k]++;
        weft_mutex_unlock(&mutex);
    }
    countdown_done(&ended);
    return NULL;
}

static void *measure_contended(void *arg)
{
    uint64_t start = now_ns(), worst = 0;
    countdown_init(&ended, FIBERS);
    for (int i = 0; i < FIBERS; i++)
        must(weft_spawn(NULL, contend, &longest[i], NULL), "weft_spawn");
    countdown_wait();
    double ns = ns_since(start);
    if (shared[0] != (long)FIBERS * EACH)
        abort();
    for (int i = 0; i < FIBERS; i++)
        worst = longest[i] > worst ? longest[i] : worst;
    report("weft", "mutex", "8", ns / FIBERS / EACH, "ns/lock");
    report("weft", "mutex", "8_worst", (double)worst / 1e3, "us");
    return arg;
}

int main(int argc, char **argv)
{
    run_main_fiber("2", argc > 1 && argv[1][0] == '8' ? measure_contended : measure_alone);
}
