/* galay: a producer on a compute scheduler sends, a consumer on the I/O scheduler receives; the wake goes to the
 * consumer's own scheduler, and costs less where both are on one thread. Weft's channels come later. Until
 * then: a list that many may push to and one takes from, and an unpark. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

enum { MESSAGES = 100 };

struct message {
    struct message *next;
    long value;
};

struct channel {
    _Atomic(struct message *) newest;
    weft_fiber consumer;
};

static bool channel_send(struct channel *channel, long value)
{
    struct message *message = malloc(sizeof *message);
    if (!message) {
        return false;
    }
    message->value = value;
    message->next = atomic_load(&channel->newest);
    while (!atomic_compare_exchange_weak(&channel->newest, &message->next, message)) {
    }
    weft_unpark(channel->consumer); /* on its own thread: no inbox, no system call */
    return true;
}

/* All messages that have come, newest first; waits while there is none. */
static struct message *channel_receive(struct channel *channel)
{
    struct message *list;
    while (!(list = atomic_exchange(&channel->newest, NULL))) {
        weft_park(WEFT_FOREVER);
    }
    return list;
}

static void *produce(void *arg)
{
    for (long i = 1; i <= MESSAGES; i++) {
        while (!channel_send(arg, i)) {
            weft_yield();
        }
    }
    return NULL;
}

static void *consume(void *arg)
{
    weft_crew *compute = arg;
    struct channel channel = {.consumer = weft_self()};
    weft_fiber near, far;
    long sum = 0;
    /* One producer beside the consumer, one on another scheduler. */
    if (weft_spawn(&near, produce, &channel, NULL)) {
        return NULL;
    }
    if (weft_crew_spawn(compute, &far, produce, &channel, NULL)) {
        return NULL;
    }
    for (int left = 2 * MESSAGES; left > 0;) {
        for (struct message *m = channel_receive(&channel), *next; m; m = next, left--) {
            next = m->next;
            sum += m->value;
            free(m);
        }
    }
    weft_join(near, NULL, WEFT_FOREVER);
    weft_join(far, NULL, WEFT_FOREVER);
    return (void *)sum;
}

int main(void)
{
    weft_crew *compute;
    void *sum = NULL;
    if (weft_crew_create(&compute, &(struct weft_crew_opts){.members = 1}) ||
        weft_crew_start(compute)) {
        return 1;
    }
    int err = weft_run(consume, compute, &sum, &(struct weft_pool_opts){.workers = 1});
    weft_crew_stop(compute, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_crew_destroy(compute);
    printf("sum %ld\n", (long)sum);
    return err == 0 && (long)sum == (long)MESSAGES * (MESSAGES + 1) ? 0 : 1;
}
