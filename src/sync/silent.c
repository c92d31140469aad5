#include "sync/silent.h"

#include <errno.h>

#include "base/clock.h"
#include "base/need.h"
#include "sched/timer.h"

#define PERIOD_NS INT64_C(60000000000)
#define PRECISION_NS INT64_C(1000000000)
#define LOOKS 1024u /* members checked before other callbacks get a turn */

static const struct weft__wait_kind idle_kind = {.name = "idle group", .label = weft__source_label};

static int64_t read_clock(void)
{
    return weft__clock_ns();
}

/* Under the lock: wakes one waiter if there is a batch. */
static void tell_one(struct weft__idle_group *g, struct weft__chain *ready)
{
    struct weft__node *node;
    while (g->silence.silent > 0 && (node = weft__waitlist_pop(&g->source.waiters))) {
        if (weft__node_fire(node, NULL, 0, ready)) {
            break;
        }
    }
}

weft_idle_member *weft__idle_group_take(struct weft__idle_group *g, size_t *n)
{
    weft__source_lock(&g->source);
    struct weft__quiet *first = weft__silence_take(&g->silence, n);
    weft__source_unlock(&g->source);
    return (weft_idle_member *)(void *)first;
}

/* One slice of a tick. The lock is not held while the callback runs, and only the last slice hands
 * out members: a batch is complete. */
static void on_tick(weft_timer *timer, void *arg, uint64_t times)
{
    struct weft__idle_group *g = arg;
    struct weft__chain ready;
    (void)times;
    weft__chain_init(&ready);
    weft__source_lock(&g->source);
    bool more = weft__silence_tick(&g->silence, read_clock, LOOKS);
    bool batch = !more && g->silence.silent > 0;
    if (batch && !g->on_silent) {
        tell_one(g, &ready);
    }
    g->ticking = g->silence.members > 0 || more;
    if (g->ticking) {
        weft_timer_set(timer, more ? 0 : weft__silence_next(&g->silence));
    }
    weft__source_unlock(&g->source);
    weft__place_chain(&ready);
    if (batch && g->on_silent) {
        size_t n;
        weft_idle_member *first = weft__idle_group_take(g, &n);
        if (first) { /* they may have been removed meanwhile */
            g->on_silent((weft_idle_group *)(void *)g, first, n, g->arg);
        }
    }
}

/* One second, limited to the allowed fractions of a period. */
static int64_t usual_precision(int64_t period_ns)
{
    int64_t least = period_ns / WEFT__SILENCE_PRECISIONS + 1;
    int64_t precision_ns = least > PRECISION_NS ? least : PRECISION_NS;
    return period_ns < precision_ns ? period_ns : precision_ns;
}

int weft_idle_init(weft_idle_group *group, const struct weft_idle_opts *options)
{
    WEFT__NEED(group);
    struct weft__idle_group *g = weft__idle_group_of(group);
    struct weft_idle_opts opts = {0};
    if (options) {
        opts = *options;
    }
    opts.period_ns = opts.period_ns ? opts.period_ns : PERIOD_NS;
    if (!opts.precision_ns) {
        opts.precision_ns = usual_precision(opts.period_ns);
    }
    int err = weft__silence_init(&g->silence, opts.period_ns, opts.precision_ns, weft__clock_ns());
    if (err) {
        return err;
    }
    weft__source_init(&g->source, &(struct weft_sync_opts){.name = opts.name});
    weft_timer_init(&g->timer, on_tick, g, &(struct weft_timer_opts){.pool = opts.pool});
    g->ticking = false;
    g->on_silent = opts.on_silent;
    g->arg = opts.arg;
    return 0;
}

void weft_idle_deinit(weft_idle_group *group)
{
    WEFT__NEED(group);
    struct weft__idle_group *g = weft__idle_group_of(group);
    int answer = weft__timer_end(&g->timer); /* first: a tick uses the other fields */
    WEFT__REQUIRE(answer != WEFT_TIMER_RUNNING, "idle group %s was destroyed by its own on_silent",
                  g->source.name ? g->source.name : "without a name");
    weft__source_deinit(&g->source, "idle group");
    size_t left = g->silence.members + g->silence.silent;
    WEFT__REQUIRE(left == 0, "idle group %s was destroyed with %zu members in it",
                  g->source.name ? g->source.name : "without a name", left);
    weft_timer_deinit(&g->timer);
    weft__silence_deinit(&g->silence);
}

void weft_idle_add(weft_idle_group *group, weft_idle_member *member)
{
    WEFT__NEED(group);
    struct weft__idle_group *g = weft__idle_group_of(group);
    struct weft__quiet *quiet = (struct weft__quiet *)(void *)member;
    weft__source_lock(&g->source);
    weft__silence_add(&g->silence, quiet, g->silence.members ? 0 : weft__clock_ns());
    if (!g->ticking) {
        g->ticking = true;
        weft_timer_set(&g->timer, weft__silence_next(&g->silence));
    }
    weft__source_unlock(&g->source);
}

bool weft_idle_remove(weft_idle_group *group, weft_idle_member *member)
{
    WEFT__NEED(group);
    struct weft__idle_group *g = weft__idle_group_of(group);
    weft__source_lock(&g->source);
    bool removed = weft__silence_remove(&g->silence, (struct weft__quiet *)(void *)member);
    weft__source_unlock(&g->source);
    return removed;
}

size_t weft_idle_count(weft_idle_group *group)
{
    WEFT__NEED(group);
    struct weft__idle_group *g = weft__idle_group_of(group);
    weft__source_lock(&g->source);
    size_t count = g->silence.members + g->silence.silent;
    weft__source_unlock(&g->source);
    return count;
}

bool weft__idle_group_arm(struct weft__idle_group *g, struct weft__node *node)
{
    weft__source_lock(&g->source);
    bool wait = g->silence.silent == 0;
    if (wait) {
        weft__waitlist_push(&g->source.waiters, node);
    }
    weft__source_unlock(&g->source);
    return wait;
}

void weft__idle_group_finish(struct weft__idle_group *g, struct weft__node *node)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&g->source);
    if (node->linked) {
        weft__waitlist_remove(&g->source.waiters, node);
    } else {
        tell_one(g, &ready);
    }
    weft__source_unlock(&g->source);
    weft__place_chain(&ready);
}

ssize_t weft_idle_wait(weft_idle_group *group, weft_idle_member **first, int64_t deadline)
{
    WEFT__NEED(group);
    struct weft__idle_group *g = weft__idle_group_of(group);
    WEFT__REQUIRE(!g->on_silent, "idle group %s has an on_silent, and is waited for",
                  g->source.name ? g->source.name : "without a name");
    for (;;) {
        struct weft__node node;
        size_t n;
        weft__source_lock(&g->source);
        struct weft__quiet *taken = weft__silence_take(&g->silence, &n);
        if (taken) {
            weft__source_unlock(&g->source);
            *first = (weft_idle_member *)(void *)taken;
            return (ssize_t)n;
        }
        weft__node_init(&node, NULL, 0);
        int err =
            weft__source_wait_locked(&g->source, &g->source.waiters, &node, deadline, &idle_kind);
        if (err) {
            return err;
        }
    }
}
