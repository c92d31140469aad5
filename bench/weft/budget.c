/* The effect of a wake budget: two fibers of one group wake one another while N others yield. With
 * a small budget the pair waits for the others after each exchange; with a large budget the others
 * wait. docs/dispatcher.md has the table. */
#include "program.h"

enum { OTHERS = 100, EXCHANGES = 200000 };

struct pair {
    weft_event events[2];
    unsigned signals;
    long exchanges, turns; /* exchanges of the pair; turns of the others */
    bool over;
};

static void *yields(void *arg)
{
    struct pair *p = arg;
    while (!p->over) {
        p->turns++;
        weft_yield();
    }
    return NULL;
}

static void exchange(struct pair *p, int side)
{
    while (!p->over) {
        weft_event_wait(&p->events[side], WEFT_FOREVER);
        weft_event_reset(&p->events[side]);
        p->over = ++p->exchanges >= EXCHANGES;
        weft_event_set(&p->events[!side]);
    }
}

static void *first(void *arg)
{
    exchange(arg, 0);
    return NULL;
}

static void *second(void *arg)
{
    exchange(arg, 1);
    return NULL;
}

static void begins(void *arg)
{
    weft_event_set(arg);
}

static void measure(unsigned signals)
{
    struct pair p = {.signals = signals};
    struct weft_member_opts opts = {.signals_per_round = signals};
    weft_dispatcher *d;
    weft_group *group;
    char parameter[32];
    must(weft_dispatcher_create(&d, &(struct weft_dispatcher_opts){.caller = true}), "create");
    must(weft_group_create(d, &group, NULL), "weft_group_create");
    for (int i = 0; i < 2; i++)
        weft_event_init(&p.events[i], &(struct weft_sync_opts){.group = group});
    must(weft_group_spawn(group, NULL, first, &p, &opts), "weft_group_spawn");
    must(weft_group_spawn(group, NULL, second, &p, &opts), "weft_group_spawn");
    for (int i = 0; i < OTHERS; i++)
        must(weft_group_spawn(group, NULL, yields, &p, NULL), "weft_group_spawn");
    weft_group_stop(group);
    must(weft_group_post(group, begins, &p.events[0]), "weft_group_post");
    uint64_t start = now_ns();
    must(weft_dispatcher_run(d), "weft_dispatcher_run");
    double ns = ns_since(start);
    snprintf(parameter, sizeof parameter, "_%u", signals);
    report("weft", "budget_pair", parameter, ns / EXCHANGES, "ns/exchange");
    report("weft", "budget_others", parameter, ns / (double)p.turns, "ns/turn");
    report("weft", "budget_between", parameter, (double)p.exchanges * OTHERS / (double)p.turns,
           "exchanges/round");
    must(weft_dispatcher_stop(d, NULL, 0, WEFT_FOREVER), "weft_dispatcher_stop");
    weft_dispatcher_destroy(d);
}

int main(void)
{
    static const unsigned signals[] = {1, 2, 10, 100};
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++)
        measure(signals[i]);
    return 0;
}
