/* A program for the sanitizers, built outside the tree. argv[1] selects what it does: nothing wrong
 * (clean), or one specific error. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

enum { FIBERS = 64, TURNS = 50, DEPTH = 4 };

static weft_mutex lock;
static long counter;
static char *volatile lost;

/* Buffers on the stack at every depth, which a switch leaves half-used. */
static __attribute__((noinline)) long sum_down(int depth, int turn)
{
    char buffer[256];
    memset(buffer, turn, sizeof buffer);
    if (depth > 0) {
        sum_down(depth - 1, turn);
    }
    weft_yield();
    return buffer[turn % (int)sizeof buffer];
}

static void *count(void *arg)
{
    char *mine = malloc(100);
    for (int turn = 0; turn < TURNS; turn++) {
        if (sum_down(DEPTH, turn) != turn || weft_mutex_lock(&lock, WEFT_FOREVER) != 0) {
            exit(2);
        }
        counter++;
        weft_mutex_unlock(&lock);
    }
    free(mine);
    return arg;
}

/* Holds memory that only its stack refers to, and waits for ever: that is no leak at exit. */
static void *hold(void *ready)
{
    char *volatile mine = malloc(4000);
    mine[0] = 1;
    weft_event_set(ready);
    weft_fiber_park(WEFT_FOREVER);
    free(mine);
    return NULL;
}

static void *clean(void *arg)
{
    weft_fiber fibers[FIBERS];
    for (int i = 0; i < FIBERS; i++) {
        if (weft_spawn(&fibers[i], count, NULL, NULL) != 0) {
            return NULL;
        }
    }
    for (int i = 0; i < FIBERS; i++) {
        weft_join(fibers[i], NULL, WEFT_FOREVER);
    }
    return counter == FIBERS * TURNS ? arg : NULL;
}

static __attribute__((noinline)) void lose(void)
{
    lost = malloc(12345);
    lost = NULL;
}

/* Overwrites what calls have left on the stack below. */
static __attribute__((noinline)) void scrub(void)
{
    volatile char buffer[16384];
    for (size_t i = 0; i < sizeof buffer; i++) {
        buffer[i] = 0;
    }
}

static void *leak(void *arg)
{
    weft_yield();
    lose();
    scrub();
    weft_yield();
    return arg;
}

static void *overflow_heap(void *arg)
{
    char *volatile heap = malloc(16);
    weft_yield();
    heap[16] = 1;
    free(heap);
    return arg;
}

static void *overflow_stack(void *arg)
{
    char stack[16];
    char *volatile at = stack;
    weft_yield();
    at[16] = 1;
    return arg;
}

/* Two fibers on two workers. The second writes after the first by the clock, but not by the memory
 * model. */
static atomic_int step;
static long shared;

static void go_on_at(int wanted)
{
    while (atomic_load_explicit(&step, memory_order_relaxed) != wanted) {
    }
}

static void *write_first(void *arg)
{
    go_on_at(1);
    shared++;
    atomic_store_explicit(&step, 2, memory_order_relaxed);
    return arg;
}

static void *write_second(void *arg)
{
    atomic_store_explicit(&step, 1, memory_order_relaxed);
    go_on_at(2);
    shared++;
    return arg;
}

static void *race(void *arg)
{
    weft_fiber second, first;
    struct weft_fiber_opts on_0 = {.bound = true, .worker = 0}, on_1 = {.bound = true, .worker = 1};
    if (weft_spawn(&second, write_second, NULL, &on_1) != 0 ||
        weft_spawn(&first, write_first, NULL, &on_0) != 0) {
        return NULL;
    }
    weft_join(first, NULL, WEFT_FOREVER);
    weft_join(second, NULL, WEFT_FOREVER);
    return arg;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        weft_fn run;
    } modes[] = {{"clean", clean},
                 {"leak", leak},
                 {"overflow_heap", overflow_heap},
                 {"overflow_stack", overflow_stack},
                 {"race", race}};
    weft_pool *pool;
    weft_event ready;
    weft_mutex_init(&lock, NULL);
    weft_event_init(&ready, NULL);
    struct weft_pool_opts opts = {.workers = 2, .deadlock_off = true};
    if (weft_pool_create(&pool, &opts) != 0 || weft_pool_start(pool) != 0) {
        return 2;
    }
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        weft_fiber fiber;
        void *right = NULL;
        if (argc < 2 || strcmp(argv[1], modes[i].name) != 0) {
            continue;
        }
        if (weft_pool_spawn(pool, NULL, hold, &ready, NULL) != 0 ||
            weft_event_wait(&ready, WEFT_FOREVER) != 0 ||
            weft_pool_spawn(pool, &fiber, modes[i].run, &ready, NULL) != 0 ||
            weft_join(fiber, &right, WEFT_FOREVER) != 0 || !right) {
            return 2;
        }
        puts("done");
        exit(0); /* with the pool running, and a fiber in it */
    }
    return 2;
}
