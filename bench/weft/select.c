/* 4 fibers send 500,000 numbers each, each fiber through its own unbuffered channel, to a fifth
 * fiber that selects over the four. usage: select WORKERS */
#include "program.h"

enum { CHANNELS = 4, EACH = 500000 };

static weft_chan *channels[CHANNELS];

static void *produce(void *arg)
{
    for (int64_t i = 1; i <= EACH; i++)
        must(weft_chan_send(*(weft_chan **)arg, &i, WEFT_FOREVER), "weft_chan_send");
    return NULL;
}

static void *measure(void *arg)
{
    int64_t sum = 0, item;
    weft_fiber producers[CHANNELS];
    struct weft_case cases[CHANNELS];
    for (int i = 0; i < CHANNELS; i++)
        must(weft_chan_create(&channels[i], sizeof(int64_t), NULL), "weft_chan_create");
    uint64_t start = now_ns();
    for (int i = 0; i < CHANNELS; i++)
        must(weft_spawn(&producers[i], produce, &channels[i], NULL), "weft_spawn");
    for (int i = 0; i < CHANNELS; i++)
        cases[i] = weft_case_recv(channels[i], &item);
    for (int i = 0; i < CHANNELS * EACH; i++) {
        must(weft_select(cases, CHANNELS, WEFT_FOREVER), "weft_select");
        sum += item;
    }
    double took = ns_since(start);
    if (sum != (int64_t)CHANNELS * EACH * (EACH + 1) / 2)
        abort();
    report("weft", "select4", "", took / (CHANNELS * EACH), "ns/select");
    for (int i = 0; i < CHANNELS; i++) {
        must(weft_join(producers[i], NULL, WEFT_FOREVER), "weft_join");
        weft_chan_destroy(channels[i]);
    }
    return arg;
}

int main(int argc, char **argv)
{
    run_main_fiber(argc > 1 ? argv[1] : "1", measure);
}
