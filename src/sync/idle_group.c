#include "sync/idle_group.h"

#include <errno.h>

#include "base/clock.h"
#include "base/nonnull.h"
#include "sched/timer.h"

#define PERIOD_NS INT64_C(60000000000)
#define PRECISION_NS INT64_C(1000000000)
#define CHECKS 1024u /* members checked before other callbacks get a turn */

static const struct weft__wait_kind idle_kind = {.name = "idle group", .label = weft__source_label};

static int64_t read_clock(void)
{
    return weft__clock_ns();
}

/* Under the lock: wakes one waiter if there is a batch. */
static void wake_one(struct weft__idle_group *g, struct weft__chain *ready)
{
    struct weft__node *node;
    while (g->list.expired > 0 && (node = weft__waitlist_pop(&g->source.waiters))) {
        if (weft__node_fire(node, NULL, 0, ready)) {
            break;
        }
    }
}

weft_idle_member *weft__idle_group_take(struct weft__idle_group *g, size_t *n)
{
    weft__source_lock(&g->source);
    struct weft__idle_list_node *first = weft__idle_list_take_expired(&g->list, n);
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
    bool more = weft__idle_list_tick(&g->list, read_clock, CHECKS);
    bool batch = !more && g->list.expired > 0;
    if (batch && !g->on_idle) {
        wake_one(g, &ready);
    }
    g->ticking = g->list.members > 0 || more;
    if (g->ticking) {
        weft_timer_set(timer, more ? 0 : weft__idle_list_next(&g->list));
    }
    weft__source_unlock(&g->source);
    weft__place_all(&ready, WEFT__FRONT);
    if (batch && g->on_idle) {
        size_t n;
        weft_idle_member *first = weft__idle_group_take(g, &n);
        if (first) { /* they may have been removed meanwhile */
            g->on_idle((weft_idle_group *)(void *)g, first, n, g->arg);
        }
    }
}

/* One second, limited to the allowed fractions of a period. */
static int64_t default_precision(int64_t period_ns)
{
    int64_t least = period_ns / WEFT__IDLE_LIST_PRECISIONS + 1;
    int64_t precision_ns = least > PRECISION_NS ? least : PRECISION_NS;
    return period_ns < precision_ns ? period_ns : precision_ns;
}

int weft_idle_init(weft_idle_group *group, const struct weft_idle_opts *options)
{
    WEFT__NONNULL(group);
    struct weft__idle_group *g = weft__idle_group_of(group);
    struct weft_idle_opts opts = {0};
    if (options) {
        opts = *options;
    }
    opts.period_ns = opts.period_ns ? opts.period_ns : PERIOD_NS;
    if (!opts.precision_ns) {
        opts.precision_ns = default_precision(opts.period_ns);
    }
    int err = weft__idle_list_init(&g->list, opts.period_ns, opts.precision_ns, weft__clock_ns());
    if (err) {
        return err;
    }
    weft__source_init(&g->source, &(struct weft_sync_opts){.name = opts.name});
    weft_timer_init(&g->timer, on_tick, g, &(struct weft_timer_opts){.pool = opts.pool});
    g->ticking = false;
    g->on_idle = opts.on_idle;
    g->arg = opts.arg;
    return 0;
}

void weft_idle_deinit(weft_idle_group *group)
{
    WEFT__NONNULL(group);
    struct weft__idle_group *g = weft__idle_group_of(group);
    int answer = weft__timer_cancel_sync(&g->timer); /* first: a tick uses the other fields */
    WEFT__REQUIRE(answer != WEFT_TIMER_RUNNING, "idle group %s was destroyed by its own on_idle",
                  g->source.name ? g->source.name : "without a name");
    weft__source_deinit(&g->source, "idle group");
    size_t left = g->list.members + g->list.expired;
    WEFT__REQUIRE(left == 0, "idle group %s was destroyed with %zu members in it",
                  g->source.name ? g->source.name : "without a name", left);
    weft_timer_deinit(&g->timer);
    weft__idle_list_deinit(&g->list);
}

void weft_idle_add(weft_idle_group *group, weft_idle_member *member)
{
    WEFT__NONNULL(group);
    struct weft__idle_group *g = weft__idle_group_of(group);
    struct weft__idle_list_node *entry = (struct weft__idle_list_node *)(void *)member;
    weft__source_lock(&g->source);
    weft__idle_list_add(&g->list, entry, g->list.members ? 0 : weft__clock_ns());
    if (!g->ticking) {
        g->ticking = true;
        weft_timer_set(&g->timer, weft__idle_list_next(&g->list));
    }
    weft__source_unlock(&g->source);
}

bool weft_idle_remove(weft_idle_group *group, weft_idle_member *member)
{
    WEFT__NONNULL(group);
    struct weft__idle_group *g = weft__idle_group_of(group);
    weft__source_lock(&g->source);
    bool removed = weft__idle_list_remove(&g->list, (struct weft__idle_list_node *)(void *)member);
    weft__source_unlock(&g->source);
    return removed;
}

size_t weft_idle_count(weft_idle_group *group)
{
    WEFT__NONNULL(group);
    struct weft__idle_group *g = weft__idle_group_of(group);
    weft__source_lock(&g->source);
    size_t count = g->list.members + g->list.expired;
    weft__source_unlock(&g->source);
    return count;
}

bool weft__idle_group_arm(struct weft__idle_group *g, struct weft__node *node)
{
    weft__source_lock(&g->source);
    bool wait = g->list.expired == 0;
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
        wake_one(g, &ready);
    }
    weft__source_unlock(&g->source);
    weft__place_all(&ready, WEFT__FRONT);
}

ssize_t weft_idle_wait(weft_idle_group *group, weft_idle_member **first, int64_t deadline)
{
    WEFT__NONNULL(group);
    struct weft__idle_group *g = weft__idle_group_of(group);
    WEFT__REQUIRE(!g->on_idle, "idle group %s has an on_idle, and weft_idle_wait was called",
                  g->source.name ? g->source.name : "without a name");
    for (;;) {
        struct weft__node node;
        size_t n;
        weft__source_lock(&g->source);
        struct weft__idle_list_node *taken = weft__idle_list_take_expired(&g->list, &n);
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
