/* A pipeline: one fiber generates numbers, three square them, one adds them up. The channels
 * between the stages hold a few items, so a slow stage slows the stages before it. A stage that is
 * done closes its output channel, and so the pipeline ends by itself. */
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { NUMBERS = 1000, SQUARERS = 3 };

static weft_chan *numbers, *squares;
static atomic_int squarers_left = SQUARERS;

static void *make(void *arg)
{
    for (long i = 1; i <= NUMBERS; i++) {
        weft_chan_send(numbers, &i, WEFT_FOREVER);
    }
    weft_chan_close(numbers);
    return arg;
}

static void *square(void *arg)
{
    long n;
    while (weft_chan_recv(numbers, &n, WEFT_FOREVER) == 0) {
        n *= n;
        weft_chan_send(squares, &n, WEFT_FOREVER);
    }
    if (atomic_fetch_sub(&squarers_left, 1) == 1) {
        weft_chan_close(squares); /* last squarer */
    }
    return arg;
}

static void *add_up(void *arg)
{
    long n, sum = 0;
    if (weft_spawn(NULL, make, NULL, NULL)) {
        return NULL;
    }
    for (int i = 0; i < SQUARERS; i++) {
        if (weft_spawn(NULL, square, NULL, NULL)) {
            return NULL;
        }
    }
    while (weft_chan_recv(squares, &n, WEFT_FOREVER) == 0) {
        sum += n;
    }
    *(long *)arg = sum;
    return arg;
}

int main(void)
{
    const struct weft_chan_opts few = {.capacity = 8};
    long sum = 0;
    if (weft_chan_create(&numbers, sizeof(long), &few) ||
        weft_chan_create(&squares, sizeof(long), &few) ||
        weft_run(NULL, add_up, &sum, NULL, WEFT_FOREVER)) {
        return 1;
    }
    weft_chan_destroy(numbers);
    weft_chan_destroy(squares);
    printf("the squares of 1 to %d add up to %ld\n", NUMBERS, sum);
    return sum == (long)NUMBERS * (NUMBERS + 1) * (2 * NUMBERS + 1) / 6 ? 0 : 1;
}
