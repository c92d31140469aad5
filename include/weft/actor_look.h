/* Seeing actors: all of them, as text and as JSON, and the way of a message through them. */
#ifndef WEFT_ACTOR_LOOK_H
#define WEFT_ACTOR_LOOK_H

#include <stdio.h>

#include <weft/actor.h>
#include <weft/dump.h>

WEFT_BEGIN_DECLS

/* Calls visit for every host, or for every actor of the host (of all hosts if NULL), until it
 * returns false. Actors go on meanwhile: each record is true of its own moment. Hosts are not
 * created and destroyed meanwhile: a visit that does so itself waits for ever. */
WEFT_API void weft_each_host(bool (*visit)(weft_host *host, void *arg), void *arg);
WEFT_API void weft_each_actor(weft_host *host,
                              bool (*visit)(const struct weft_actor_info *info, void *arg),
                              void *arg);

/* Writes every host with its counters and queues, and its actors: each below the one that has
 * spawned it, if that is still there. A supervisor has its strategy and counts, and below it
 * children that are not there; a child has its name and restarts. At most `max` actors, 0: all.
 * NULL: all hosts. -ENOMEM; -EINVAL; -EIO: the stream has an error. */
WEFT_API int weft_actor_dump(FILE *out, weft_host *host, enum weft_dump_format format, size_t max);

/* What the actor says of itself (`stats` of its kind), as text: asked of the actor, which answers
 * between two steps, a fiber actor in a receive, whatever it waits for; no step is taken for it. In
 * a fiber or a plain thread. As snprintf: the length, and as much as fits. -ENOTSUP: its kind says
 * nothing. -ESRCH, -ENOMEM, -EREMOTE; -ETIMEDOUT, -ECANCELED, -EINTR; an error that `stats`
 * answers. */
WEFT_API int weft_actor_stats(weft_pid pid, char *buf, size_t size, int64_t deadline);

/* --- the way of a message ---------------------------------------------------------------- */

/* While a trace is on, a message has a number, event.trace: a message that is sent while another is
 * handled has the number of that one, and one that is sent for no such reason has a new one. So
 * what has the same number came, over any number of actors, from the same message. A completion has
 * the number of what the one who completes it handles: if that is the handler itself, at once, of
 * the step that asked; of a call, of the step that answered; if nothing is handled there, as by a
 * timer, 0. A step is given one event at a time meanwhile, so that there is one message that it
 * handles. A fiber actor handles what it has received last. Numbers go with messages to other
 * nodes. After 2^32 - 1 they begin again. */
enum weft_passage_kind {
    WEFT_PASSAGE_SENT,
    WEFT_PASSAGE_HANDLED, /* given to the step, or received */
};
struct weft_passage {
    enum weft_passage_kind kind;
    enum weft_actor_event_kind event;
    uint32_t trace;
    weft_pid from, to;
    const char *topic;
    uint64_t tag;
    int64_t at_ns;
};
/* Called where it happens: must not wait, send, or change the trace. */
typedef void (*weft_passage_fn)(const struct weft_passage *passage, void *arg);

/* Switches it on for the whole process, or by NULL off: when that returns the former function is
 * not called any more. -EBUSY: it is on. */
WEFT_API int weft_actor_trace(weft_passage_fn fn, void *arg);

WEFT_END_DECLS
#endif
