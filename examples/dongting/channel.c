/* Dongting: group.newChannel(), offer, take, takeAll, fireOffer. The channel is bounded and can be
 * closed; each offer wakes one of the waiting consumers, and no consumer is forgotten. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

enum { CONSUMERS = 3, ITEMS = 30 };

static weft_chan *channel;
static int sum;

struct consumer {
    weft_frame frame;
    struct weft_wait wait;
    int item, taken;
};

static enum weft_step take(weft_frame *f, struct weft_got got);

static enum weft_step took(weft_frame *f, struct weft_got got)
{
    struct consumer *self = (struct consumer *)f;
    if (got.status == -EPIPE) { /* closed and empty: not the same as a timeout */
        return weft_frame_return(f, NULL);
    }
    self->taken++;
    sum += self->item;
    return weft_frame_yield(f, WEFT_THEN(take));
}

static enum weft_step take(weft_frame *f, struct weft_got got)
{
    struct consumer *self = (struct consumer *)f;
    (void)got;
    return weft_frame_await_recv(f, &self->wait, channel, &self->item, WEFT_FOREVER,
                                 WEFT_THEN(took));
}

static const struct weft_frame_kind consuming = {.name = "consumer", .start = take};

static void *offer(void *arg)
{
    for (int i = 1; i <= ITEMS; i++) {
        weft_chan_send(channel, &i, WEFT_FOREVER); /* waits while the channel is full */
    }
    weft_chan_close(channel);
    return arg;
}

/* takeAll: receives all available items in one call. */
static void *take_all(void *arg)
{
    int items[8];
    ssize_t n = weft_chan_recv_many(channel, items, 8, WEFT_FOREVER); /* -EPIPE: closed and empty */
    for (ssize_t i = 0; i < n; i++) {
        sum += items[i];
        ++*(int *)arg;
    }
    return NULL;
}

int main(void)
{
    weft_dispatcher *dispatcher;
    weft_group *group;
    static struct consumer consumers[CONSUMERS];
    int at_once = 0;
    /* .group = group would make the channel the group's own, without atomic operations. This
     * channel is open to all threads. */
    if (weft_dispatcher_create(&dispatcher, NULL) || weft_dispatcher_start(dispatcher) ||
        weft_group_create(dispatcher, &group, NULL) ||
        weft_chan_create(&channel, sizeof(int), &(struct weft_chan_opts){.capacity = 8})) {
        return 1;
    }
    for (int i = 0; i < CONSUMERS; i++) {
        weft_frame_init(&consumers[i].frame, &consuming);
        if (weft_group_spawn_frame(group, NULL, &consumers[i].frame, NULL)) {
            return 1;
        }
    }
    if (weft_group_spawn(group, NULL, take_all, &at_once, NULL)) {
        return 1;
    }
    offer(NULL); /* fireOffer: from this thread */
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    weft_chan_destroy(channel);
    int taken = at_once;
    for (int i = 0; i < CONSUMERS; i++) {
        taken += consumers[i].taken;
    }
    printf("%d items, sum %d, %d of them at once\n", taken, sum, at_once);
    return taken != ITEMS || sum != ITEMS * (ITEMS + 1) / 2;
}
