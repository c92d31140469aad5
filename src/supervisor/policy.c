#include "supervisor/policy.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

#define DEFAULT_RESTARTS 3u
#define MAX_RESTARTS 100000u
#define DEFAULT_WINDOW_NS (5 * (int64_t)1000000000)
#define DEFAULT_BACKOFF_MAX_NS (30 * (int64_t)1000000000)
#define DEFAULT_JITTER 20u
#define MAX_JITTER 50u

static bool is_group(const struct weft__policy *policy)
{
    return policy->strategy == WEFT_ONE_FOR_ALL || policy->strategy == WEFT_REST_FOR_ONE;
}

/* --- creation --------------------------------------------------------------------------------- */

int weft__policy_init(struct weft__policy *policy, const struct weft_supervisor_opts *opts,
                      uint64_t seed)
{
    unsigned limit = opts->restarts ? opts->restarts : DEFAULT_RESTARTS;
    if ((unsigned)opts->strategy > WEFT_DYNAMIC || opts->jitter > MAX_JITTER ||
        (limit > MAX_RESTARTS && limit != WEFT_RESTARTS_UNLIMITED) || opts->window_ns < 0 ||
        opts->backoff_ns < 0 || opts->backoff_max_ns < 0 || opts->stable_ns < 0) {
        return -EINVAL;
    }
    *policy = (struct weft__policy){
        .strategy = opts->strategy,
        .limit = limit,
        .window_ns = opts->window_ns ? opts->window_ns : DEFAULT_WINDOW_NS,
        .backoff_ns = opts->backoff_ns,
        .backoff_max_ns = opts->backoff_max_ns ? opts->backoff_max_ns : DEFAULT_BACKOFF_MAX_NS,
        .jitter = opts->jitter ? opts->jitter : DEFAULT_JITTER,
        .next_check_at = INT64_MIN,
    };
    policy->stable_ns = opts->stable_ns ? opts->stable_ns : policy->window_ns;
    weft__rand_seed(&policy->rand, seed);
    if (limit != WEFT_RESTARTS_UNLIMITED) {
        policy->times = weft__alloc(limit * sizeof *policy->times);
        return policy->times ? 0 : -ENOMEM;
    }
    return 0;
}

void weft__policy_deinit(struct weft__policy *policy)
{
    weft__free(policy->times);
    weft__free(policy->children);
}

int64_t weft__policy_add(struct weft__policy *policy, enum weft_child_restart restart,
                         int64_t stop_ns, const uint32_t *requires)
{
    if (policy->count == policy->capacity) {
        uint32_t capacity = policy->capacity ? 2 * policy->capacity : 8;
        struct weft__policy_child *more = weft__alloc_dirty(capacity * sizeof *more);
        if (!more) {
            return -ENOMEM;
        }
        if (policy->count) {
            memcpy(more, policy->children, policy->count * sizeof *more);
        }
        weft__free(policy->children);
        policy->children = more;
        policy->capacity = capacity;
    }
    policy->children[policy->count] = (struct weft__policy_child){
        .restart = (uint8_t)restart,
        .state = WEFT_CHILD_WAITING,
        .start_at = INT64_MIN,
        .stop_ns = stop_ns,
        .requires = requires,
    };
    policy->waiting++;
    policy->hint = policy->count;
    return policy->count++;
}

void weft__policy_drop(struct weft__policy *policy, uint32_t child)
{
    policy->waiting -= policy->children[child].state == WEFT_CHILD_WAITING;
    policy->children[child] = policy->children[--policy->count];
    policy->next_check_at = INT64_MIN;
    policy->cursor = policy->count;
}

/* --- reports ---------------------------------------------------------------------------------- */

static void halt(struct weft__policy *policy, struct weft__policy_child *child,
                 bool restart_after_halt)
{
    child->restart_after_halt = restart_after_halt;
    if (!child->halt) {
        child->halt = true;
        policy->halting++;
    }
    policy->cursor = policy->count;
    policy->next_check_at = INT64_MIN;
}

static void schedule_start(struct weft__policy *policy, uint32_t child, int64_t at)
{
    struct weft__policy_child *c = &policy->children[child];
    c->state = WEFT_CHILD_WAITING;
    c->start_at = at;
    policy->waiting++;
    policy->hint = child;
}

void weft__policy_started(struct weft__policy *policy, uint32_t child, int64_t now)
{
    struct weft__policy_child *c = &policy->children[child];
    c->state = WEFT_CHILD_RUNNING;
    c->running_since = now;
    c->killed = c->restart_after_halt = false;
    c->escalate_at = now;
    policy->waiting--;
    policy->up++;
}

/* Records a restart. False: too many in the window. */
static bool count_restart(struct weft__policy *policy, int64_t now)
{
    if (policy->limit == WEFT_RESTARTS_UNLIMITED) {
        policy->restarted++;
        return true;
    }
    int64_t *place = &policy->times[policy->restarted % policy->limit];
    if (policy->restarted >= policy->limit && now - *place <= policy->window_ns) {
        return false;
    }
    *place = now;
    policy->restarted++;
    return true;
}

/* The delay doubles each time; jitter subtracts less than half, so each delay is longer than the
 * previous one, up to the maximum. */
static int64_t backoff_delay(struct weft__policy *policy, uint32_t failures)
{
    int64_t delay = policy->backoff_ns;
    while (delay > 0 && failures-- > 0 && delay < policy->backoff_max_ns) {
        delay = delay > INT64_MAX / 2 ? INT64_MAX : 2 * delay;
    }
    delay = delay < policy->backoff_max_ns ? delay : policy->backoff_max_ns;
    uint64_t max_cut = (uint64_t)delay / 100 * policy->jitter;
    uint64_t number = (uint64_t)weft__rand_next(&policy->rand) << 32;
    number |= weft__rand_next(&policy->rand);
    return max_cut ? delay - (int64_t)(number % max_cut) : delay;
}

/* Stops the other children that restart together with this one. A child that has `halt` already
 * keeps its `restart_after_halt`: it may be about to be removed. */
static void stop_siblings(struct weft__policy *policy, uint32_t child, int64_t at)
{
    uint32_t first = policy->strategy == WEFT_ONE_FOR_ALL ? 0 : child + 1;
    for (uint32_t i = first; i < policy->count; i++) {
        struct weft__policy_child *c = &policy->children[i];
        if (c->state == WEFT_CHILD_RUNNING && !c->halt && i != child) {
            halt(policy, c, c->restart != WEFT_CHILD_TEMPORARY);
        }
        if (c->start_at < at) {
            c->start_at = at;
        }
    }
}

static void restart(struct weft__policy *policy, uint32_t child, int error, int64_t now)
{
    struct weft__policy_child *c = &policy->children[child];
    if (!count_restart(policy, now)) {
        c->state = WEFT_CHILD_FAILED;
        weft__policy_shut_down(policy, error ? error : -ECANCELED);
        return;
    }
    int64_t at = weft__clock_add(now, backoff_delay(policy, c->failures++));
    schedule_start(policy, child, at);
    if (is_group(policy)) {
        stop_siblings(policy, child, at);
    }
}

void weft__policy_ended(struct weft__policy *policy, uint32_t child, int error, int64_t now)
{
    struct weft__policy_child *c = &policy->children[child];
    bool was_up = c->state != WEFT_CHILD_WAITING, asked = c->halt;
    policy->up -= was_up;
    policy->waiting -= !was_up;
    policy->halting -= asked;
    c->halt = false;
    if (asked && c->restart_after_halt && !policy->ending) {
        schedule_start(policy, child, c->start_at);
        return;
    }
    if (asked || policy->ending || c->restart == WEFT_CHILD_TEMPORARY ||
        (c->restart == WEFT_CHILD_TRANSIENT && !error)) {
        c->state = error && !asked ? WEFT_CHILD_FAILED : WEFT_CHILD_STOPPED;
        return;
    }
    if (was_up && now - c->running_since >= policy->stable_ns) {
        c->failures = 0;
    }
    restart(policy, child, error, now);
}

void weft__policy_remove(struct weft__policy *policy, uint32_t child)
{
    struct weft__policy_child *c = &policy->children[child];
    if (c->state == WEFT_CHILD_WAITING) {
        c->state = WEFT_CHILD_STOPPED;
        policy->waiting--;
    } else if (c->state == WEFT_CHILD_RUNNING || c->state == WEFT_CHILD_STOPPING) {
        halt(policy, c, false);
    }
}

void weft__policy_shut_down(struct weft__policy *policy, int error)
{
    if (policy->ending) {
        return;
    }
    policy->ending = true;
    policy->error = error;
    for (uint32_t i = 0; i < policy->count; i++) {
        weft__policy_remove(policy, i);
    }
}

/* --- actions ---------------------------------------------------------------------------------- */

static const struct weft__policy_action no_action = {.what = WEFT__POLICY_SLEEP, .at = INT64_MAX};

static struct weft__policy_action kill_child(struct weft__policy_child *c, uint32_t child)
{
    c->killed = true;
    return (struct weft__policy_action){.what = WEFT__POLICY_KILL, .child = child};
}

/* The next action for a child that has `halt`: stop it, kill it, or wait. */
static struct weft__policy_action escalate(struct weft__policy *policy, uint32_t child, int64_t now)
{
    struct weft__policy_child *c = &policy->children[child];
    if (c->killed || c->escalate_at > now) {
        return (struct weft__policy_action){.what = WEFT__POLICY_SLEEP,
                                            .at = c->killed ? INT64_MAX : c->escalate_at};
    }
    bool asked = c->state == WEFT_CHILD_STOPPING;
    c->state = WEFT_CHILD_STOPPING;
    if (asked || c->stop_ns < 0) {
        return kill_child(c, child);
    }
    c->escalate_at = weft__clock_add(now, c->stop_ns);
    return (struct weft__policy_action){.what = WEFT__POLICY_STOP, .child = child};
}

void weft__policy_postpone(struct weft__policy *policy, struct weft__policy_action action,
                           int64_t at)
{
    struct weft__policy_child *c = &policy->children[action.child];
    c->escalate_at = at;
    if (action.what == WEFT__POLICY_KILL) {
        c->killed = false;
    } else {
        c->state = WEFT_CHILD_RUNNING;
    }
    policy->next_check_at = at < policy->next_check_at ? at : policy->next_check_at;
}

/* The last child with `halt`; the others wait until it has ended. */
static struct weft__policy_action stop_in_order(struct weft__policy *policy, int64_t now)
{
    uint32_t i = policy->count;
    while (!policy->children[--i].halt) {
    }
    return escalate(policy, i, now);
}

static struct weft__policy_action stop_concurrently(struct weft__policy *policy, int64_t now)
{
    if (now < policy->next_check_at && policy->cursor == 0) {
        return (struct weft__policy_action){.what = WEFT__POLICY_SLEEP,
                                            .at = policy->next_check_at};
    }
    if (policy->cursor == 0) { /* start the next round */
        policy->cursor = policy->count;
        policy->next_check_at = INT64_MAX;
    }
    policy->next_check_at = policy->next_check_at == INT64_MIN ? INT64_MAX : policy->next_check_at;
    while (policy->cursor > 0) {
        uint32_t i = --policy->cursor;
        if (policy->children[i].halt) {
            struct weft__policy_action action = escalate(policy, i, now);
            int64_t at = action.what == WEFT__POLICY_SLEEP  ? action.at
                         : action.what == WEFT__POLICY_STOP ? policy->children[i].escalate_at
                                                            : INT64_MAX;
            policy->next_check_at = at < policy->next_check_at ? at : policy->next_check_at;
            if (action.what != WEFT__POLICY_SLEEP) {
                return action;
            }
        }
    }
    return (struct weft__policy_action){.what = WEFT__POLICY_SLEEP, .at = policy->next_check_at};
}

static bool has_required(const struct weft__policy *policy, const struct weft__policy_child *c)
{
    for (const uint32_t *at = c->requires; at && *at != UINT32_MAX; at++) {
        if (policy->children[*at].state != WEFT_CHILD_RUNNING || policy->children[*at].halt) {
            return false;
        }
    }
    return true;
}

static struct weft__policy_action start(uint32_t child)
{
    return (struct weft__policy_action){.what = WEFT__POLICY_START, .child = child};
}

/* For a group strategy: the first child that can be started; the others wait until it runs. */
static struct weft__policy_action start_in_order(struct weft__policy *policy, int64_t now)
{
    for (uint32_t i = 0; i < policy->count; i++) {
        const struct weft__policy_child *c = &policy->children[i];
        if (c->state == WEFT_CHILD_WAITING && has_required(policy, c)) {
            return c->start_at <= now ? start(i)
                                      : (struct weft__policy_action){.what = WEFT__POLICY_SLEEP,
                                                                     .at = c->start_at};
        }
    }
    return no_action;
}

static struct weft__policy_action start_any(struct weft__policy *policy, int64_t now)
{
    struct weft__policy_action action = no_action;
    uint32_t first =
        policy->strategy == WEFT_DYNAMIC && policy->hint < policy->count ? policy->hint : 0;
    for (uint32_t n = 0; n < policy->count; n++) {
        uint32_t i = first + n < policy->count ? first + n : first + n - policy->count;
        const struct weft__policy_child *c = &policy->children[i];
        if (c->state == WEFT_CHILD_WAITING && has_required(policy, c)) {
            if (c->start_at <= now) {
                return start(i);
            }
            action.at = c->start_at < action.at ? c->start_at : action.at;
        }
    }
    return action;
}

struct weft__policy_action weft__policy_next(struct weft__policy *policy, int64_t now)
{
    struct weft__policy_action stops = no_action, starts = no_action;
    if (policy->halting) {
        stops = policy->strategy == WEFT_DYNAMIC ? stop_concurrently(policy, now)
                                                 : stop_in_order(policy, now);
        if (stops.what != WEFT__POLICY_SLEEP) {
            return stops;
        }
    }
    if (policy->ending) {
        return policy->up ? stops : (struct weft__policy_action){.what = WEFT__POLICY_EXIT};
    }
    if (policy->waiting && !(is_group(policy) && policy->halting)) {
        starts = is_group(policy) ? start_in_order(policy, now) : start_any(policy, now);
    }
    return starts.what != WEFT__POLICY_SLEEP || starts.at < stops.at ? starts : stops;
}
