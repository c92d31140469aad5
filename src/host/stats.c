/* Statistics that an actor reports about itself. The request is an envelope that is not an event;
 * the actor answers it where its envelopes are taken out of the inbox: on its own thread, between
 * steps. */
#include <errno.h>

#include <weft/actor.h>

#include "command/call.h"
#include "mailbox/mailbox.h"
#include "mailbox/pending.h"

#define FIRST_BYTES 256

/* Includes the terminating 0. NULL: *err says why. */
static weft_buf *text_of(weft_actor *actor, int *err)
{
    size_t size = FIRST_BYTES;
    for (;;) {
        weft_buf *buf = weft_buf_alloc(size, 0);
        *err = buf ? actor->kind->stats(actor, (char *)weft_buf_put(buf, size), size) : -ENOMEM;
        if (*err < 0) {
            weft_buf_free(buf);
            return NULL;
        }
        if ((size_t)*err < size) {
            return buf;
        }
        size = (size_t)*err + 1;
        weft_buf_free(buf);
    }
}

void weft__actor_reply_stats(weft_actor *actor, struct weft__envelope *envelope)
{
    int err = -ENOTSUP;
    weft_buf *buf = actor->kind->stats ? text_of(actor, &err) : NULL;
    weft__pending_reply(envelope->tag, buf ? 0 : err, buf);
    weft__envelope_free(envelope);
}

int weft_actor_stats(weft_pid pid, char *buf, size_t size, int64_t deadline)
{
    struct weft__envelope *envelope =
        weft__envelope_new((enum weft_actor_event_kind)WEFT__ENVELOPE_STATS, 0, NULL);
    weft_buf *text;
    int err = envelope ? weft__call(pid, envelope, &text, deadline) : -ENOMEM;
    if (err) {
        return err == -EOWNERDEAD ? -ESRCH : err; /* a statistics request has no effect that could
                                                     be half done */
    }
    int length = snprintf(buf, size, "%s", (const char *)text->data);
    weft_buf_free(text);
    return length;
}
