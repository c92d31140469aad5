/* galay: MpscChannel<int> channel; channel.send(42) on a compute scheduler; auto result = co_await
 * channel.recv() on the I/O scheduler; also recvBatch and tryRecv. galay's channel is unbounded and
 * has no close; this channel is bounded and can be closed. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

enum { MOST = 1000 };

static weft_chan *channel;

static void *compute_task(void *arg)
{
    int answer = 42, more[] = {1, 2, 3};
    weft_chan_send(channel, &answer, WEFT_FOREVER);
    for (ssize_t sent = 0; sent < 3;) {
        ssize_t n = weft_chan_send_many(channel, more + sent, (size_t)(3 - sent), WEFT_FOREVER);
        sent += n > 0 ? n : 0;
    }
    weft_chan_close(channel);
    return arg;
}

static void *io_task(void *arg)
{
    int value = 0, batch[8], sum = 0;
    int err = weft_chan_recv(channel, &value, WEFT_FOREVER);
    if (err == 0) {
        printf("received %d\n", value); /* result.value() */
    }
    ssize_t n;
    while ((n = weft_chan_recv_many(channel, batch, 8, WEFT_FOREVER)) > 0) { /* recvBatch */
        for (ssize_t i = 0; i < n; i++) {
            sum += batch[i];
        }
    }
    err = weft_chan_recv(channel, &value, 0); /* tryRecv; the channel is closed */
    printf("then %d, then %s\n", sum, err == -EPIPE ? "closed" : "what?");
    return value == 42 && sum == 6 && n == -EPIPE && err == -EPIPE ? arg : NULL;
}

int main(void)
{
    weft_pool *io, *compute;
    weft_fiber consumer;
    void *ok = NULL;
    const struct weft_chan_opts opts = {.name = "results", .capacity = 16, .max_capacity = MOST};
    if (weft_chan_create(&channel, sizeof(int), &opts) ||
        weft_pool_create(&io, &(struct weft_pool_opts){.name = "io", .workers = 1}) ||
        weft_pool_create(&compute, &(struct weft_pool_opts){.workers = 1, .compute = true}) ||
        weft_pool_start(io) || weft_pool_start(compute) ||
        weft_pool_spawn(io, &consumer, io_task, &ok, NULL) ||
        weft_pool_submit(compute, compute_task, NULL)) {
        return 1;
    }
    weft_join(consumer, &ok, WEFT_FOREVER);
    weft_pool_stop(compute, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_stop(io, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(compute);
    weft_pool_destroy(io);
    weft_chan_destroy(channel);
    return ok ? 0 : 1;
}
