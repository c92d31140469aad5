/* Two fibers pass a number back and forth by park and unpark, 1,000,000 times. usage: handoff
 * WORKERS */
#include "program.h"

enum { ROUNDS = 1000000 };

static const char *workers = "1";
static weft_fiber server, returner;
static int ping, pong;

static void *return_balls(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        must(weft_fiber_park(WEFT_FOREVER), "weft_fiber_park");
        pong = ping;
        must(weft_fiber_unpark(server), "weft_fiber_unpark");
    }
    return arg;
}

static void *measure(void *arg)
{
    server = weft_self();
    must(weft_spawn(&returner, return_balls, NULL, NULL), "weft_spawn");
    uint64_t start = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        ping = i;
        must(weft_fiber_unpark(returner), "weft_fiber_unpark");
        must(weft_fiber_park(WEFT_FOREVER), "weft_fiber_park");
        if (pong != i)
            abort();
    }
    report("weft", "handoff", workers, ns_since(start) / ROUNDS, "ns/roundtrip");
    must(weft_join(returner, NULL, WEFT_FOREVER), "weft_join");
    return arg;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        workers = argv[1];
    run_main_fiber(workers, measure);
}
