/* Runs n plain threads that start at the same moment, each with its own seeded generator. */
#ifndef WEFT_TEST_STRESS_QUEUE_CONCURRENT_THREADS_H
#define WEFT_TEST_STRESS_QUEUE_CONCURRENT_THREADS_H

#include <pthread.h>
#include <sched.h>

#include "base/cpu.h"
#include "base/rand.h"
#include "check.h"

#define CROWD_MOST 16

struct member {
    int index;
    struct weft__rand rand;
    void (*run)(struct member *self);
    pthread_barrier_t *start;
    pthread_t thread;
};

static void *crowd_main(void *arg)
{
    struct member *self = arg;
    pthread_barrier_wait(self->start);
    self->run(self);
    return NULL;
}

/* Runs run(member) in n threads and waits for all; `round` varies the seed. */
static void crowd_run(int n, unsigned round, void (*run)(struct member *self))
{
    struct member members[CROWD_MOST];
    pthread_barrier_t start;
    CHECK(n <= CROWD_MOST);
    pthread_barrier_init(&start, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) {
        members[i] = (struct member){.index = i, .run = run, .start = &start};
        weft__rand_seed(&members[i].rand, check_seed() + round * 64u + (unsigned)i);
        CHECK_EQ(pthread_create(&members[i].thread, NULL, crowd_main, &members[i]), 0);
    }
    for (int i = 0; i < n; i++) {
        CHECK_EQ(pthread_join(members[i].thread, NULL), 0);
    }
    pthread_barrier_destroy(&start);
}

static inline uint32_t member_dice(struct member *self, uint32_t sides)
{
    return weft__rand_next(&self->rand) % sides;
}

/* Nothing to do at the moment. With more threads than CPUs, spinning would keep others from
 * working. */
__attribute__((unused)) static inline void member_pause(struct member *self)
{
    if (member_dice(self, 4) == 0) {
        sched_yield();
    } else {
        weft__cpu_pause();
    }
}

#endif
