/* Adding and removing children of a running supervisor: calls (<weft/actor_call.h>) to its
 * actor. */
#include <errno.h>
#include <string.h>

#include <weft/actor_call.h>

#include "actor/supervisor.h"
#include "base/alloc.h"
#include "base/clock.h"

static const char add_topic[] = "supervisor.add", remove_topic[] = "supervisor.remove";

/* A caller of weft_supervisor_remove that waits for the exit of a child. */
struct weft__remover {
    struct weft__remover *next;
    uint64_t call;
};

void weft__removers_tell(struct weft__remover *removers, int error)
{
    while (removers) {
        struct weft__remover *next = removers->next;
        weft_actor_reply(removers->call, error, NULL);
        weft__free(removers);
        removers = next;
    }
}

/* --- in the supervisor's step ----------------------------------------------------------------- */

/* Takes `input`. */
static int add(struct weft__supervisor *s, weft_buf *input, weft_pid *child)
{
    if (s->policy.strategy != WEFT_DYNAMIC || s->policy.ending) {
        weft_buf_free(input);
        return s->policy.ending ? -ESRCH : -ENOTSUP;
    }
    weft__lock(&s->lock);
    int64_t number = weft__child_add(s, &s->opts->children[0], input, NULL);
    weft__unlock(&s->lock);
    if (number < 0) {
        return (int)number;
    }
    int err = weft__child_start(s, (uint32_t)number);
    weft__lock(&s->lock);
    if (err) {
        weft__child_drop(s, (uint32_t)number);
    } else {
        weft__policy_started(&s->policy, (uint32_t)number, weft__clock_ns());
        *child = s->children[number].pid;
    }
    weft__unlock(&s->lock);
    return err;
}

static void serve_add(struct weft__supervisor *s, const struct weft_actor_event *event)
{
    weft_pid child = {0};
    weft_buf *answer = weft_buf_copy(&child, sizeof child); /* allocated first: no child starts
                                                               whose PID cannot be returned */
    int err = answer ? add(s, weft_actor_take(event), &child) : -ENOMEM;
    if (err) {
        weft_buf_free(answer);
        answer = NULL;
    } else {
        memcpy(answer->data, &child, sizeof child);
    }
    weft_actor_reply(event->tag, err, answer);
}

/* Returns 0: the call is answered when the child has exited. */
static int begin_remove(struct weft__supervisor *s, const struct weft_actor_event *event)
{
    weft_pid pid;
    if (!event->buf || event->buf->len != sizeof pid) {
        return -EINVAL;
    }
    memcpy(&pid, event->buf->data, sizeof pid);
    struct weft__remover *remover = weft__alloc(sizeof *remover);
    if (!remover) {
        return -ENOMEM;
    }
    weft__lock(&s->lock);
    uint32_t child = weft__child_find(s, pid);
    if (child != UINT32_MAX) {
        *remover = (struct weft__remover){.next = s->children[child].removers, .call = event->tag};
        s->children[child].removers = remover;
        weft__policy_remove(&s->policy, child);
    }
    weft__unlock(&s->lock);
    if (child == UINT32_MAX) {
        weft__free(remover);
        return -ENOENT;
    }
    return 0;
}

void weft__supervisor_serve(struct weft__supervisor *s, const struct weft_actor_event *event)
{
    if (event->topic && strcmp(event->topic, add_topic) == 0) {
        serve_add(s, event);
        return;
    }
    bool removes = event->topic && strcmp(event->topic, remove_topic) == 0;
    int err = removes ? begin_remove(s, event) : -ENOTSUP;
    if (err) {
        weft_actor_reply(event->tag, err, NULL);
    }
}

/* --- callers ---------------------------------------------------------------------------------- */

int weft_supervisor_add(weft_pid supervisor, weft_buf *input, weft_pid *child, int64_t deadline)
{
    weft_buf *answer = NULL;
    int err = weft_actor_call(supervisor, add_topic, input, &answer, deadline);
    if (!err && (!answer || answer->len != sizeof *child)) {
        err = -ENOTSUP; /* a supervisor does not reply like this */
    }
    if (!err && child) {
        memcpy(child, answer->data, sizeof *child);
    }
    weft_buf_free(answer);
    return err;
}

int weft_supervisor_remove(weft_pid supervisor, weft_pid child, int64_t deadline)
{
    weft_buf *request = weft_buf_copy(&child, sizeof child);
    return request ? weft_actor_call(supervisor, remove_topic, request, NULL, deadline) : -ENOMEM;
}
