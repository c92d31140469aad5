/* galay: MpscChannel<int>; a producer on a compute scheduler sends, a consumer on the I/O scheduler
 * receives. The wake queues the consumer on its own scheduler, and costs less if both run on one
 * thread. */
#include <stdio.h>
#include <weft/weft.h>

enum { MESSAGES = 100 };

static weft_chan *channel;

static void *produce(void *arg)
{
    for (long i = 1; i <= MESSAGES; i++) {
        weft_chan_send(channel, &i, WEFT_FOREVER); /* channel.send(i) */
    }
    return arg;
}

static void *consume(void *arg)
{
    weft_pool_set *compute = arg;
    weft_fiber near, far;
    long value, sum = 0;
    /* One producer on the consumer's scheduler, one on another. */
    if (weft_spawn(&near, produce, NULL, NULL) ||
        weft_pool_set_spawn(compute, &far, produce, NULL, NULL)) {
        return NULL;
    }
    for (int left = 2 * MESSAGES; left > 0; left--) {
        weft_chan_recv(channel, &value, WEFT_FOREVER); /* co_await channel.recv() */
        sum += value;
    }
    weft_join(near, NULL, WEFT_FOREVER);
    weft_join(far, NULL, WEFT_FOREVER);
    return (void *)sum;
}

int main(void)
{
    weft_pool_set *compute;
    void *sum = NULL;
    if (weft_chan_create(&channel, sizeof(long), &(struct weft_chan_opts){.capacity = 16}) ||
        weft_pool_set_create(&compute, &(struct weft_pool_set_opts){.members = 1}) ||
        weft_pool_set_start(compute)) {
        return 1;
    }
    int err =
        weft_run(&sum, consume, compute, &(struct weft_pool_opts){.workers = 1}, WEFT_FOREVER);
    weft_pool_set_stop(compute, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_set_destroy(compute);
    weft_chan_destroy(channel);
    printf("sum %ld\n", (long)sum);
    return err == 0 && (long)sum == (long)MESSAGES * (MESSAGES + 1) ? 0 : 1;
}
