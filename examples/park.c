/* weft_fiber_park and weft_fiber_unpark, the two calls from which any waiting primitive can be
 * built. Here: a cell that holds one number; a producer fills it, a consumer empties it, and each
 * parks while it waits for the other. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { EMPTY = -1, COUNT = 1000 };

struct cell {
    atomic_int value; /* EMPTY or the stored value */
    weft_fiber producer, consumer;
};

/* park returns at once if the unpark came first, so no wake can be lost between the check and the
 * park. The loop checks again after each park, because one unpark may stand for an earlier
 * change. */
static void put(struct cell *cell, int value)
{
    while (atomic_load(&cell->value) != EMPTY) {
        weft_fiber_park(WEFT_FOREVER);
    }
    atomic_store(&cell->value, value);
    weft_fiber_unpark(cell->consumer);
}

static int take(struct cell *cell)
{
    int value;
    while ((value = atomic_load(&cell->value)) == EMPTY) {
        weft_fiber_park(WEFT_FOREVER);
    }
    atomic_store(&cell->value, EMPTY);
    weft_fiber_unpark(cell->producer);
    return value;
}

static void *produce(void *arg)
{
    for (int i = 1; i <= COUNT; i++) {
        put(arg, i);
    }
    return NULL;
}

static void *consume(void *arg)
{
    struct cell *cell = arg;
    atomic_init(&cell->value, EMPTY);
    cell->consumer = weft_self();
    if (weft_spawn(&cell->producer, produce, cell, NULL) != 0) {
        return NULL;
    }
    long sum = 0;
    for (int i = 0; i < COUNT; i++) {
        sum += take(cell);
    }
    weft_join(cell->producer, NULL, WEFT_FOREVER);

    /* With a deadline a park is also a sleep. A last unpark from the producer may still be kept: it
     * would end the first park at once. */
    while (weft_fiber_park(weft_after(WEFT_MS(1))) != -ETIMEDOUT) {
    }
    return (void *)sum;
}

int main(void)
{
    struct cell cell;
    void *sum = NULL;
    int err = weft_run(&sum, consume, &cell, NULL, WEFT_FOREVER);
    printf("1 + 2 + ... + %d = %ld\n", COUNT, (long)sum);
    return err == 0 && (long)sum == (long)COUNT * (COUNT + 1) / 2 ? 0 : 1;
}
