/* Delayed messages: entries of the pending table (mailbox/pending.h) that become messages. */
#include <weft/actor.h>

#include <errno.h>

#include "actor/topic_check.h"
#include "base/clock.h"
#include "mailbox/pending.h"
#include "remote/route.h"

#define MESSAGE_KINDS (1u << WEFT__PENDING_MESSAGE | 1u << WEFT__PENDING_REPEAT)

static int schedule(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf, int64_t deadline,
                    int64_t period_ns, uint64_t *ref)
{
    weft__topic_check(topic);
    if (weft_pid_is_none(to) || to.node != weft__node()) {
        weft_buf_free(buf);
        return weft_pid_is_none(to) ? -ESRCH : -EREMOTE;
    }
    enum weft__pending_kind kind = period_ns ? WEFT__PENDING_REPEAT : WEFT__PENDING_MESSAGE;
    struct weft__pending_entry *entry = weft__pending_entry_new(kind, to, WEFT_EVENT_MESSAGE, tag);
    if (!entry) {
        weft_buf_free(buf);
        return -ENOMEM;
    }
    entry->envelope->topic = topic;
    entry->envelope->buf = buf;
    int err = weft__pending_add(entry, deadline, period_ns, ref);
    if (err) {
        weft__pending_entry_free(entry);
    }
    return err;
}

int weft_actor_send_at(weft_pid to, uint64_t *ref, const char *topic, uint64_t tag, weft_buf *buf,
                       int64_t deadline)
{
    return schedule(to, topic, tag, buf, deadline, 0, ref);
}

int weft_actor_send_every(weft_pid to, uint64_t *ref, const char *topic, uint64_t tag,
                          weft_buf *buf, int64_t first, int64_t period_ns)
{
    if (period_ns <= 0) {
        weft_buf_free(buf);
        return -EINVAL;
    }
    return schedule(to, topic, tag, buf, first, period_ns, ref);
}

int weft_actor_send_cancel(uint64_t ref)
{
    return weft__pending_drop(ref, MESSAGE_KINDS) ? 0 : -ENOENT;
}
