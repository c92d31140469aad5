/* The actor of a supervisor. */
#include "supervisor/supervisor.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/nonnull.h"
#include "relation/relation.h"
#include "sched/pool.h"

#define RETRY_NS 1000000

/* --- timer ------------------------------------------------------------------------------------ */

/* An exit signal with 0 and no sender: the supervisor's step asks its policy for the next
 * action. */
static void wake_up(weft_timer *timer, void *arg, uint64_t times)
{
    const struct weft__supervisor *s = arg;
    (void)times;
    if (weft_actor_exit(s->pid, 0, NULL) == -ENOMEM) {
        weft_timer_set(timer, weft_after(RETRY_NS));
    }
}

/* The callback is short and does not wait. */
static void stop_timer(struct weft__supervisor *s)
{
    while (weft_timer_cancel(&s->timer) == WEFT_TIMER_RUNNING) {
        sched_yield();
    }
    weft_timer_deinit(&s->timer);
}

/* --- actions of the policy -------------------------------------------------------------------- */

static void child_ended(struct weft__supervisor *s, uint32_t child, int error)
{
    weft__lock(&s->lock);
    struct weft__child *c = &s->children[child];
    struct weft__removal_waiter *removal_waiters = c->removal_waiters;
    c->removal_waiters = NULL;
    c->error = error;
    if (!weft_pid_is_none(c->pid)) {
        weft__child_clear_pid(s, child);
    }
    weft__policy_ended(&s->policy, child, error, weft__clock_ns());
    unsigned state = s->policy.children[child].state;
    if (s->policy.strategy == WEFT_DYNAMIC && !s->policy.ending && state != WEFT_CHILD_WAITING) {
        weft__child_drop(s, child);
    }
    weft__unlock(&s->lock);
    weft__removal_waiters_notify(removal_waiters, 0);
}

static void start_child(struct weft__supervisor *s, uint32_t child)
{
    int err = weft__child_start(s, child);
    if (err == -ESHUTDOWN) { /* the host stops, and with it every actor of it */
        weft__lock(&s->lock);
        weft__policy_shut_down(&s->policy, 0);
        weft__unlock(&s->lock);
    } else if (err) {
        child_ended(s, child, err);
    } else {
        weft__lock(&s->lock);
        weft__policy_started(&s->policy, child, weft__clock_ns());
        weft__unlock(&s->lock);
    }
}

/* Without memory the action is retried later; if the child has just exited it is not needed. */
static void stop_child(struct weft__supervisor *s, struct weft__policy_action action)
{
    weft_pid pid = s->children[action.child].pid;
    int err = action.what == WEFT__POLICY_KILL
                  ? weft_actor_kill(pid)
                  : weft_actor_cancel(pid, "stopped by its supervisor");
    if (err == -ENOMEM) {
        weft__lock(&s->lock);
        weft__policy_postpone(&s->policy, action, weft__clock_ns() + RETRY_NS);
        weft__unlock(&s->lock);
    }
}

static void run_policy(struct weft__supervisor *s, weft_out *out)
{
    weft_out_idle(out);
    for (;;) {
        weft__lock(&s->lock);
        struct weft__policy_action action = weft__policy_next(&s->policy, weft__clock_ns());
        weft__unlock(&s->lock);
        switch (action.what) {
        case WEFT__POLICY_START:
            start_child(s, action.child);
            break;
        case WEFT__POLICY_STOP:
        case WEFT__POLICY_KILL:
            stop_child(s, action);
            break;
        case WEFT__POLICY_SLEEP:
            if (action.at != INT64_MAX) {
                weft_timer_set(&s->timer, action.at);
            }
            return;
        case WEFT__POLICY_EXIT:
            weft_out_exit(out, s->policy.error, NULL);
            return;
        }
    }
}

/* --- lifecycle -------------------------------------------------------------------------------- */

static void begin_shutdown(struct weft__supervisor *s, int error)
{
    weft__lock(&s->lock);
    weft__policy_shut_down(&s->policy, error);
    weft__unlock(&s->lock);
}

static void handle_exit(struct weft__supervisor *s, const struct weft_actor_event *event)
{
    uint32_t child = event->tag ? weft__child_find(s, event->from) : UINT32_MAX;
    if (child != UINT32_MAX) {
        child_ended(s, child, event->error);
    } else if (event->error) { /* its own supervisor, or another actor that sends it an exit
                                  signal */
        begin_shutdown(s, event->error);
    }
}

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct weft__supervisor *s = weft_actor_state(self);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_EXIT) {
            handle_exit(s, &events[i]);
        } else if (events[i].kind == WEFT_EVENT_CANCEL) {
            begin_shutdown(s, 0);
        } else if (events[i].kind == WEFT_EVENT_CALL) {
            weft__supervisor_handle_call(s, &events[i]);
        }
    }
    run_policy(s, out);
    return 0;
}

/* The supervisor's spawn fails: kill the children that run. A failed spawn notifies no relation, so
 * the links would not make them exit. */
static void kill_children(struct weft__supervisor *s)
{
    for (uint32_t i = s->policy.count; i-- > 0;) {
        if (!weft_pid_is_none(s->children[i].pid)) {
            weft__link_kill(s->self, s->children[i].pid);
        }
    }
}

static int start_children(struct weft__supervisor *s)
{
    int err = 0;
    for (uint32_t i = 0; i < s->policy.count && !err; i++) {
        err = weft__child_start(s, i);
        if (!err) {
            weft__policy_started(&s->policy, i, weft__clock_ns());
        }
    }
    if (err) {
        kill_children(s);
    }
    return err;
}

static int init(weft_actor *self, const char *method, const weft_buf *input)
{
    struct weft__supervisor *s = weft_actor_state(self);
    (void)method;
    s->self = self;
    s->pid = weft_actor_pid(self);
    s->host = self->host;
    memcpy(&s->opts, input->data, sizeof(const struct weft_supervisor_opts *));
    int err = weft__policy_init(&s->policy, s->opts, s->pid.id ^ (uint64_t)weft__clock_ns());
    if (err) {
        return err;
    }
    err = weft__children_init(s);
    err = err ? err : start_children(s);
    if (err) {
        weft__children_free(s);
        return err;
    }
    weft_timer_init(&s->timer, wake_up, s, &(struct weft_timer_opts){.pool = s->host->pool});
    weft__supervisors_add(s);
    return 0;
}

static void close(weft_actor *self)
{
    struct weft__supervisor *s = weft_actor_state(self);
    weft__supervisors_remove(s);
    stop_timer(s);
    if (!weft__actor_of(s->pid)) { /* a hook refused it, or its name is taken */
        kill_children(s);
    }
    weft__children_free(s);
}

const struct weft_actor_kind weft__supervisor_kind = {
    .name = "supervisor",
    .state_bytes = sizeof(struct weft__supervisor),
    .init = init,
    .step = step,
    .close = close,
    .trap = true,
};

int weft_supervisor_start(weft_host *host, weft_pid *out, const struct weft_supervisor_opts *opts)
{
    WEFT__NONNULL(host);
    weft_buf *input = weft__supervisor_input(opts);
    if (!input) {
        return -ENOMEM;
    }
    int err = weft_actor_spawn(host, out, &weft__supervisor_kind, NULL, input);
    weft_buf_free(input);
    return err;
}
