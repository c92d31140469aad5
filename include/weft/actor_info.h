/* Inspecting actors: list them, dump them as text or JSON, read an actor's own statistics, and
 * trace a message on its way through actors. For consoles, monitoring and debugging: every call
 * works on a running system, and actors keep running while they are inspected. */
#ifndef WEFT_ACTOR_INFO_H
#define WEFT_ACTOR_INFO_H

#include <stdio.h>

#include <weft/actor.h>
#include <weft/dump.h>

WEFT_BEGIN_DECLS

/* Call `visit` for every host, or for every actor of `host` (NULL: of all hosts), until `visit`
 * returns false.
 *
 * Actors keep running meanwhile: each record describes the actor at the moment it was read. *info
 * is borrowed for the call of `visit`. The list of hosts is locked while hosts are visited: a
 * visitor of weft_host_each that creates or destroys a host deadlocks.
 * Context: any thread; does not wait, except for what `visit` does. */
WEFT_API void weft_host_each(bool (*visit)(weft_host *host, void *arg), void *arg);
WEFT_API void weft_actor_each(weft_host *host,
                              bool (*visit)(const struct weft_actor_info *info, void *arg),
                              void *arg);

/* Write every host (NULL: all of them) with its counters and queues, and its actors as a tree: each
 * actor below its parent, the actor that spawned it, if the parent still runs.
 *
 * A supervisor is shown with its strategy and counts, and below it the children that do not run; a
 * supervised child with its name and restarts. max: the most actors shown per host; 0: all.
 * Returns 0; -EINVAL for an unknown format; -ENOMEM (what was written before stays written); -EIO
 * if the stream has an error.
 * Context: any thread; does not wait for actors, but writes to `out`, which may block the thread.
 * While all hosts are dumped none is created or destroyed. */
WEFT_API int weft_actor_dump(FILE *out, weft_host *host, enum weft_dump_format format, size_t max);

/* Ask an actor for its statistics: the text that `stats` of its kind writes.
 *
 * The actor itself runs `stats`: a step actor between two steps, a fiber actor inside a receive,
 * whatever it is waiting for. No step is run for the request.
 * Returns the length of the text, as snprintf does, with as much of it as fits in `buf`; -ENOTSUP
 * if the actor's kind has no `stats`; an error that `stats` returned; -ESRCH if the actor has
 * ended, or ends before it replies; -EREMOTE if it is on another node; -ETIMEDOUT, -ECANCELED,
 * -EINTR; -ENOMEM.
 * Context: a fiber or a plain thread, not a step; waits; a cancellation point. */
WEFT_API int weft_actor_stats(weft_pid pid, char *buf, size_t size, int64_t deadline);

/* --- message traces --------------------------------------------------------------------------- */

/* While tracing is on, every message carries a trace ID (event.trace). A message that is sent while
 * another one is handled inherits the ID of the handled message; a message sent outside of any
 * handling gets a new ID. So all events with one ID were caused, over any number of actors, by the
 * same first message.
 *
 * A completion carries the ID of what is being handled where it is completed: if the command's
 * handler completes it at once, the ID of the step that issued the command; for a call, the ID of
 * the step that replied; if nothing is being handled there, as in a timer, 0.
 *
 * While tracing is on a step gets one event at a time, so that it handles exactly one message. A
 * fiber actor handles the message it received last. IDs travel with messages to other nodes. They
 * wrap around after 2^32 - 1. */
enum weft_actor_trace_kind {
    WEFT_ACTOR_TRACE_SENT,
    WEFT_ACTOR_TRACE_HANDLED, /* given to a step, or received by a fiber actor */
};
struct weft_actor_trace_event {
    enum weft_actor_trace_kind kind;
    enum weft_actor_event_kind event;
    uint32_t trace;
    weft_pid from, to;
    const char *topic;
    uint64_t tag;
    int64_t at_ns;
};
/* Called synchronously on the thread that sends or handles the message: must not wait, send, or
 * change the trace. *passage is borrowed for the call. */
typedef void (*weft_actor_trace_fn)(const struct weft_actor_trace_event *trace_event, void *arg);

/* Start tracing for the whole process with `fn`, or stop tracing with NULL.
 *
 * When the call that stops tracing returns, the previous function is not running and is not called
 * again.
 * Returns 0; -EBUSY if tracing is on already (stop it first).
 * Context: any thread, not from `fn`; a stop waits (by yielding the thread) for calls of `fn` that
 * are running; not a cancellation point. */
WEFT_API int weft_actor_trace(weft_actor_trace_fn fn, void *arg);

WEFT_END_DECLS
#endif
