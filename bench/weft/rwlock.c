/* 8 fibers on 2 workers take a read lock, and every 20th time a write lock. */
#include "program.h"

#include <weft/sync.h>

enum { FIBERS = 8, EACH = 500000 };

static weft_rwlock lock;
static long shared[4];
static struct countdown ended;

static void *contend(void *arg)
{
    for (long i = (long)arg; i < (long)arg + EACH; i++) {
        if (i % 20 == 0) {
            must(weft_rwlock_write(&lock, WEFT_FOREVER), "weft_rwlock_write");
            for (int k = 0; k < 4; k++)
                shared[k]++;
            weft_rwlock_write_unlock(&lock);
        } else {
            must(weft_rwlock_read(&lock, WEFT_FOREVER), "weft_rwlock_read");
            if (shared[0] != shared[3])
                abort();
            weft_rwlock_read_unlock(&lock);
        }
    }
    countdown_done(&ended);
    return NULL;
}

static void *measure(void *arg)
{
    uint64_t start = now_ns();
    countdown_init(&ended, FIBERS);
    for (long i = 0; i < FIBERS; i++)
        must(weft_spawn(NULL, contend, (void *)i, NULL), "weft_spawn");
    countdown_wait();
    double ns = ns_since(start);
    if (shared[0] != FIBERS * EACH / 20)
        abort();
    report("weft", "rwlock", "8", ns / FIBERS / EACH, "ns/lock");
    return arg;
}

int main(void)
{
    run_main_fiber("2", measure);
}
