/* Upgrading a running actor to new code.
 *
 * A state belongs to a kind and is closed by that kind, once. The new state is built next to the
 * old one, from it; only when the new state is complete is the old one closed and freed. So one of
 * the two is always complete.
 *
 * Calls that the old code has seen and not answered belong to its state. If the state is kept, they
 * stay with it; a newly built state takes over the calls that its `convert` transfers to it, and
 * the others fail after the old state was closed, because its close may answer them.
 */
#include <errno.h>

#include "base/alloc.h"
#include "mailbox/mailbox.h"
#include "mailbox/pending.h"

struct weft__new_code {
    const struct weft_actor_kind *kind;
    weft_upgrade_fn convert;
    struct weft__envelope *envelope; /* the event for the next step */
};

int weft_out_upgrade(weft_out *out, const struct weft_actor_kind *kind, weft_upgrade_fn convert)
{
    struct weft__new_code *code = weft__alloc(sizeof *code);
    struct weft__envelope *envelope = code ? weft__envelope_new(WEFT_EVENT_UPGRADE, 0, NULL) : NULL;
    if (!envelope) {
        weft__free(code);
        return -ENOMEM;
    }
    *code = (struct weft__new_code){.kind = kind, .convert = convert, .envelope = envelope};
    weft__new_code_free(out->new);
    out->new = code;
    out->status = WEFT__OUT_UPGRADE;
    return 0;
}

void weft__new_code_free(struct weft__new_code *code)
{
    if (code) {
        if (code->envelope) {
            weft__envelope_free(code->envelope);
        }
        weft__free(code);
    }
}

/* Other threads read the kind under the lock. */
static void set_kind(weft_actor *actor, const struct weft_actor_kind *kind)
{
    if (!weft__mailbox_is_shared(actor)) { /* and senders may share it from now on */
        weft__mailbox_discard_stale(actor);
    }
    weft__lock(&actor->lock);
    actor->kind = kind;
    atomic_store_explicit(&actor->limit, weft__kind_limit(kind, actor->host), memory_order_relaxed);
    weft__unlock(&actor->lock);
    weft__admission_admit_waiters(
        weft_actor_pid(actor)); /* the capacity may have grown, or be unlimited */
    if (kind->trap) {
        atomic_store_explicit(&actor->trap, true, memory_order_relaxed);
    }
}

/* Returns the new state, or NULL and *err. */
static void *convert(weft_actor *actor, const struct weft__new_code *code, int *err)
{
    size_t bytes = code->kind->state_bytes;
    void *state = weft__alloc(bytes ? bytes : 1);
    *err = state ? code->convert(actor, actor->state, state) : -ENOMEM;
    if (*err) {
        weft__free(state);
        return NULL;
    }
    return state;
}

static int replace(weft_actor *actor, const struct weft__new_code *code)
{
    int err;
    if (!code->kind->step || !weft__kind_is_valid(code->kind)) {
        return -EINVAL;
    }
    if (!code->convert) {
        if (code->kind->state_bytes != actor->kind->state_bytes) {
            return -EINVAL;
        }
        set_kind(actor, code->kind);
        return 0;
    }
    weft_pid self = weft_actor_pid(actor);
    weft__pending_upgrade_begin(self);
    void *state = convert(actor, code, &err);
    if (err) {
        return err;
    }
    weft__actor_close(actor);
    weft__pending_upgrade_end(self);
    weft__free(actor->state);
    actor->state = state;
    set_kind(actor, code->kind);
    return 0;
}

void weft__actor_upgrade(weft_actor *actor, weft_out *out)
{
    struct weft__envelope *envelope = out->new->envelope;
    out->new->envelope = NULL;
    envelope->error = replace(actor, out->new);
    weft__actor_put_first(actor, envelope);
    weft__new_code_free(out->new);
    weft_buf_free(out->result);
    weft__exit_reason_unref(out->exit_reason);
    out->new = NULL;
}
