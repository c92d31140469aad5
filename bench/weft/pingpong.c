/* Two fibers pass a number back and forth through two unbuffered channels, 1,000,000 times. usage:
 * pingpong WORKERS */
#include "program.h"

enum { ROUNDS = 1000000 };

static const char *workers = "1";
static weft_chan *ping, *pong;

static void *return_balls(void *arg)
{
    int64_t ball;
    while (weft_chan_recv(ping, &ball, WEFT_FOREVER) == 0)
        must(weft_chan_send(pong, &ball, WEFT_FOREVER), "weft_chan_send");
    return arg;
}

static void *measure(void *arg)
{
    weft_fiber returner;
    must(weft_chan_create(&ping, sizeof(int64_t), NULL), "weft_chan_create");
    must(weft_chan_create(&pong, sizeof(int64_t), NULL), "weft_chan_create");
    must(weft_spawn(&returner, return_balls, NULL, NULL), "weft_spawn");
    uint64_t start = now_ns();
    for (int64_t i = 0, ball; i < ROUNDS; i++) {
        must(weft_chan_send(ping, &i, WEFT_FOREVER), "weft_chan_send");
        must(weft_chan_recv(pong, &ball, WEFT_FOREVER), "weft_chan_recv");
        if (ball != i)
            abort();
    }
    report("weft", "pingpong", workers, ns_since(start) / ROUNDS, "ns/roundtrip");
    weft_chan_close(ping);
    must(weft_join(returner, NULL, WEFT_FOREVER), "weft_join");
    weft_chan_destroy(ping);
    weft_chan_destroy(pong);
    return arg;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        workers = argv[1];
    run_main_fiber(workers, measure);
}
