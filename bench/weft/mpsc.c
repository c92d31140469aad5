/* 4 fibers send 1,000,000 numbers each to a fifth through one channel of capacity 1,024. usage:
 * mpsc WORKERS */
#include "program.h"

enum { PRODUCERS = 4, EACH = 1000000 };

static const char *workers = "2";
static weft_chan *channel;

static void *produce(void *arg)
{
    for (int64_t i = 1; i <= EACH; i++)
        must(weft_chan_send(channel, &i, WEFT_FOREVER), "weft_chan_send");
    return arg;
}

static void *measure(void *arg)
{
    int64_t sum = 0, item;
    const struct weft_chan_opts opts = {.capacity = 1024};
    must(weft_chan_create(&channel, sizeof(int64_t), &opts), "weft_chan_create");
    weft_fiber producers[PRODUCERS];
    uint64_t start = now_ns();
    for (int i = 0; i < PRODUCERS; i++)
        must(weft_spawn(&producers[i], produce, NULL, NULL), "weft_spawn");
    for (int i = 0; i < PRODUCERS * EACH; i++) {
        must(weft_chan_recv(channel, &item, WEFT_FOREVER), "weft_chan_recv");
        sum += item;
    }
    double took = ns_since(start);
    if (sum != (int64_t)PRODUCERS * EACH * (EACH + 1) / 2)
        abort();
    report("weft", "mpsc", workers, PRODUCERS * EACH * 1e3 / took, "Mmsg/s");
    for (int i = 0; i < PRODUCERS; i++)
        must(weft_join(producers[i], NULL, WEFT_FOREVER), "weft_join");
    weft_chan_destroy(channel);
    return arg;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        workers = argv[1];
    run_main_fiber(workers, measure);
}
