/* Actors: state machines that share nothing and communicate by messages.
 *
 * An actor runs in steps. A step receives the events that have arrived since the previous step,
 * updates the actor's own state, and states through its output (weft_out) what happens next:
 *
 *     static int count(weft_actor *self, const struct weft_actor_event *events, size_t n,
 *                      weft_out *out)
 *     {
 *         int *total = weft_actor_state(self);
 *         for (size_t i = 0; i < n; i++)
 *             *total += (int)events[i].tag;
 *         if (*total < 100)
 *             weft_out_idle(out);
 *         else
 *             weft_out_done(out, NULL);
 *         return 0;
 *     }
 *     static const struct weft_actor_kind counter = {
 *         .name = "counter", .state_bytes = sizeof(int), .step = count};
 *
 * Actors live in a host and run on the host's worker pool. A worker runs one actor at a time, for
 * one turn of steps, and then another actor. A step must not wait: slow work is a command
 * (weft_out_command), whose completion arrives as an event with the command's tag. Completions
 * arrive in any order.
 *
 *   output             if the step issued no command      if it did (they are submitted first)
 *   weft_out_continue  stepped again, after other actors  same; completions arrive as they finish
 *   weft_out_idle      sleeps until any event arrives     same
 *   weft_out_wait      same as weft_out_idle              sleeps until a completion arrives;
 *                                                         messages stay queued
 *   weft_out_done      ends with a result                 same; completions are discarded
 *   weft_out_exit      ends with an exit reason           same; completions are discarded
 *                      (<weft/supervisor.h>)
 *   weft_out_upgrade   stepped again, by the new code     same; completions go to the code that
 *                                                         is installed when they arrive
 *   none of these      same as weft_out_idle              same as weft_out_wait
 *
 * For weft_out_wait, unfinished commands of earlier steps count as well. The step after such a wait
 * gets no messages: only completions and other non-message events (a cancel, for example). A
 * completion that arrives before the step has returned ends the wait, too. Several commands may
 * have the same tag; each has its own completion.
 *
 * A step that returns an error ends the actor with that error, and the step's commands are dropped.
 * If memory is so short that a command's error cannot be reported to the actor, the actor ends with
 * -ENOMEM. `close` is called exactly once, however the actor ends.
 */
#ifndef WEFT_ACTOR_H
#define WEFT_ACTOR_H

#include <stdio.h>

#include <weft/buf.h>
#include <weft/inspect.h>
#include <weft/pool.h>

WEFT_BEGIN_DECLS

typedef struct weft_host weft_host;
typedef struct weft_actor weft_actor;
typedef struct weft_out weft_out;
struct weft_actor_kind;

/* The identity of an actor. A PID is never reused, not even after the actor has ended. */
typedef struct weft_pid {
    uint32_t node, host;
    uint64_t id;
} weft_pid;

/* weft_pid_equal: do both PIDs name the same actor? weft_pid_is_none: is this the zero PID, which
 * names no actor? Context: any thread; neither waits. */
static inline bool weft_pid_equal(weft_pid a, weft_pid b)
{
    return a.id == b.id && a.host == b.host && a.node == b.node;
}
static inline bool weft_pid_is_none(weft_pid pid)
{
    return pid.id == 0;
}

/* Write the PID as text, "<node.host.slot.generation>" (for example "<0.1.17.3>"), into buf.
 *
 * Returns the length of the full text, as snprintf does; the text is truncated if size is too
 * small.
 * Context: any thread; does not wait. */
WEFT_API int weft_pid_format(weft_pid pid, char *buf, size_t size);
/* Parse a PID in the format that weft_pid_format writes.
 *
 * Returns 0 and the PID in *out; -EINVAL if text is not a PID.
 * Context: any thread; does not wait. */
WEFT_API int weft_pid_parse(weft_pid *out, const char *text);

/* --- hosts ----------------------------------------------------------------------------- */

struct weft_host_opts {
    const char *name;        /* any length; default "actors" */
    unsigned workers;        /* default: the CPUs this process may use */
    enum weft_driver driver; /* of the host's pool; default: auto */
    uint64_t max_actors;     /* exact limit; default: as many as memory allows */
    /* Mailbox capacity in messages of actors whose kind sets none; default 65,536, at most
     * 2^24-1. */
    unsigned mailbox;
    /* Maximum number of events per step for kinds that set none; 1 .. 64, default 64. */
    unsigned batch;
    /* The length of one turn of an actor on a worker, before other actors run. A turn ends after
     * the step in which either limit is reached. */
    unsigned turn_events; /* default 1024 */
    int64_t turn_ns;      /* measured from the end of the turn's first step; default 200 us */
    /* Exits without a joiner are kept for a later weft_actor_join: the last `results` actors that
     * ended with an error or with a result. Default 1024, at most 2^20. */
    unsigned results;
};

/* Create a host and start its pool.
 *
 * opts: NULL for defaults; borrowed for the call.
 * Returns 0 and an owned host in *out; -EINVAL for a bad option (weft_last_error names it); -EMFILE
 * if the process has 65,535 hosts already; -EAGAIN if the threads cannot be started; -ENOMEM; or
 * any other error of weft_pool_create.
 * Context: any thread; does not wait. */
WEFT_API int weft_host_create(weft_host **out, const struct weft_host_opts *opts);
/* Stop the host: refuse new actors, send every actor at least one cancel event, and wait until all
 * actors have ended. Until they end, commands, sends and timers work as before, so that actors can
 * clean up. At the deadline the remaining actors are ended by force, before their next step.
 *
 * reason: text for the cancel events, or NULL; copied.
 * Returns the number of actors that were ended by force (0: none); -EINPROGRESS if one of the
 * host's own actors called: the stop has begun, call again from outside the host; -EBUSY if some
 * actors have not ended within a second after the deadline (a step that does not return, an
 * overloaded machine): call again; -ECANCELED or -EINTR if the wait was cancelled or interrupted.
 * Context: any thread or fiber outside the host; waits; cancellation point. */
WEFT_API int weft_host_stop(weft_host *host, const char *reason, int64_t deadline);
/* Destroy a stopped host and free its memory. NULL is allowed. A host that still runs is a caller's
 * bug, and the program is aborted with a message.
 *
 * Context: any thread; does not wait, except for dead-letter callbacks that are running. */
WEFT_API void weft_host_destroy(weft_host *host);
/* Return the host's name, borrowed until weft_host_destroy. Context: any thread; does not wait. */
WEFT_API const char *weft_host_name(const weft_host *host);

/* A hook observes the start and the end of every actor of a host. Hooks are called in the order in
 * which they were added. */
struct weft_host_hook {
    const char *name; /* borrowed until the host is destroyed */
    /* Called after init and before other threads and actors can see the actor, on the spawning
     * thread. A non-zero return refuses the actor: the spawn returns that error, on_end is called
     * for the hooks that had accepted, and the actor is closed. NULL: always accept. */
    int (*on_start)(weft_host *host, weft_pid pid, const struct weft_actor_kind *kind, void *arg);
    /* Called after close, before links, monitors and joiners are notified; hooks run in reverse
     * order. `reason`: 0 or a negative errno. */
    void (*on_end)(weft_host *host, weft_pid pid, const struct weft_actor_kind *kind, int reason,
                   void *arg);
    void *arg;
};
/* Add a hook. Call it before the host's first actor is spawned. The struct is copied.
 *
 * Returns 0; -EEXIST if the host has a hook with this name; -EBUSY if an actor was spawned already;
 * -EINVAL if the name or both functions are NULL; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_host_add_hook(weft_host *host, const struct weft_host_hook *hook);

/* A dead letter: a message that no actor ever reads. Its receiver had ended, ended before reading
 * it, or dropped it from a full mailbox. */
struct weft_dead_letter {
    weft_pid to, from;
    const char *topic;
    uint64_t tag;
    const weft_buf *buf; /* borrowed for the call; may be NULL */
};
typedef void (*weft_dead_letter_fn)(weft_host *host, const struct weft_dead_letter *letter,
                                    void *arg);
/* Set the function that is called for each dead letter, on the thread that found it. The function
 * must not wait; it may send. Statistics count dead letters in any case. Call this before the
 * host's first actor is spawned.
 *
 * Returns 0; -EBUSY if an actor was spawned already.
 * Context: any thread; does not wait. */
WEFT_API int weft_host_on_dead_letter(weft_host *host, weft_dead_letter_fn fn, void *arg);

/* --- actors ----------------------------------------------------------------------------- */

enum weft_actor_event_kind {
    WEFT_EVENT_MESSAGE,  /* `topic`, `tag`, `buf` as sent; `from`: the sender */
    WEFT_EVENT_COMPLETE, /* the command with this `tag` is complete: `error`, or `buf` */
    /* A message whose sender waits for weft_actor_reply(tag, ...). */
    WEFT_EVENT_CALL,
    /* The actor is asked to end; `buf`, or NULL, says why. May come more than once, as when its host
     * and its supervisor both stop it, and before messages that were sent earlier. */
    WEFT_EVENT_CANCEL,
    /* An exit signal with `error` and `reason`: the linked actor `from` has ended (`tag` 1), or
     * weft_actor_exit was called (`tag` 0). */
    WEFT_EVENT_EXIT,
    /* The monitored actor `from` has ended with `error` and `reason`; `tag` is the monitor
     * reference. */
    WEFT_EVENT_DOWN,
    WEFT_EVENT_UPGRADE, /* the upgrade is done, or failed with `error`: weft_out_upgrade */
};

struct weft_actor_event {
    enum weft_actor_event_kind kind;
    int error; /* 0 or a negative errno */
    uint64_t tag;
    /* The sender of a message; none if a plain thread or a plain fiber sent it. In the completion
     * of a send: the receiver. */
    weft_pid from;
    const char *topic;
    weft_buf *buf; /* owned by the step: freed after it unless weft_actor_take_buf took it */
    /* The text of an exit reason, or NULL; borrowed until the step returns. */
    const weft_buf *reason;
    uint32_t trace; /* the event's trace chain, or 0 (weft_actor_trace) */
};

/* What happens to a message for an actor whose mailbox is full. */
enum weft_mailbox_policy {
    WEFT_MAILBOX_REFUSE,      /* the send fails with -ENOBUFS */
    WEFT_MAILBOX_DROP_OLDEST, /* the oldest message is dropped and becomes a dead letter */
    /* A sending fiber waits for capacity, and so does a message of weft_out_send; weft_actor_send
     * from a step or a plain thread fails with -ENOBUFS. */
    WEFT_MAILBOX_WAIT,
};

struct weft_actor_kind {
    const char *name;
    size_t state_bytes; /* zeroed before init; see weft_actor_state */
    /* The accepted entry points, terminated by NULL. NULL: any method, and init interprets it. */
    const char *const *methods;
    /* Called before other threads and actors can see the actor, on the spawning thread. If it
     * returns an error the actor never exists and close is not called. `input` is borrowed. NULL:
     * nothing to do. */
    int (*init)(weft_actor *self, const char *method, const weft_buf *input);
    int (*step)(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out);
    /* Set this instead of step to make fiber actors (below). */
    int (*run)(weft_actor *self, weft_buf **result);
    size_t stack_bytes; /* stack of a fiber actor; as in struct weft_fiber_opts */
    /* Called exactly once. NULL: nothing to do. */
    void (*close)(weft_actor *self);
    /* Called before close if the actor does not end on its own: it was killed, it received an exit
     * signal that it does not trap, or the deadline of weft_host_stop has passed. Use it to stop
     * work that runs elsewhere on the actor's behalf. NULL: nothing to do. */
    void (*abort)(weft_actor *self);
    /* Writes the actor's own statistics, as snprintf, for weft_actor_stats. Runs on the actor's own
     * thread, between steps. NULL: none. */
    int (*stats)(weft_actor *self, char *buf, size_t size);
    unsigned mailbox; /* mailbox capacity in messages; 0: the host's default */
    unsigned batch;   /* maximum events per step, up to 64; 0: the host's default */
    enum weft_mailbox_policy policy;
    bool trap; /* exit signals from links are events: <weft/supervisor.h> */
};

/* Start an actor of this kind.
 *
 * kind: borrowed for the life of the actor. method, input: borrowed for the call; NULL is allowed.
 * out: NULL is allowed.
 * Returns 0 and the PID in *out; -EINVAL if the kind has neither step nor run, or both, or a bad
 * batch or policy; -ENOENT if the kind has no such method; -EAGAIN if the host has max_actors
 * actors; -ESHUTDOWN if the host is stopping; -ENOMEM; or the error of init or of a hook.
 * Context: any thread, fiber or step; does not wait. */
WEFT_API int weft_actor_spawn(weft_host *host, weft_pid *out, const struct weft_actor_kind *kind,
                              const char *method, const weft_buf *input);

/* The deadline of a send that does as the receiver's mailbox policy says: it waits without limit if
 * the policy is WEFT_MAILBOX_WAIT and the sender is a fiber or a command, and not at all
 * otherwise. */
#define WEFT_BY_POLICY INT64_C(-1)

/* Send a message without waiting for its arrival. Messages from one sender to one actor arrive in
 * order. Senders that wait for capacity are served in order of arrival.
 *
 * topic: borrowed for ever: a literal, static storage, or the result of weft_topic_intern
 * (<weft/remote.h>). Any other pointer aborts the program; in steps and fibers of a release build
 * only a sample of the messages is checked.
 * buf: taken, also on an error; NULL is allowed.
 * deadline: how long to wait for mailbox capacity: WEFT_BY_POLICY, or a deadline, which counts
 * whatever the policy is.
 * Returns 0; -ESRCH if the actor has ended or never existed, or ends during the wait; -ENOBUFS if
 * the mailbox is full and the call may not wait (the mailbox counts as full while other senders
 * wait for capacity); -ETIMEDOUT at the deadline; -ECANCELED or -EINTR if the wait was cancelled or
 * interrupted; -EHOSTUNREACH if the actor is on another node without a route (<weft/remote.h>), or
 * the error of that route's receiver; -ENOMEM.
 * Context: any thread, fiber or step. Waits in a fiber or, with a deadline, also in a plain thread;
 * that wait is a cancellation point. A step does not wait: use weft_out_send
 * (<weft/actor_out.h>). */
WEFT_API int weft_actor_send(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf,
                             int64_t deadline);

/* Wait until the actor has ended, and get its result. When the call returns, the actor's names and
 * timers are gone and its links and monitors have been notified.
 *
 * If the actor ended earlier while no joiner waited, one call still returns the same, as long as
 * the host exists and still keeps the exit (`results` of struct weft_host_opts).
 * result: NULL is allowed. The first caller gets the result, owned; other callers get NULL.
 * Returns 0 and *result; the error that the actor ended with; -ESRCH if the actor never existed,
 * ended earlier normally and without a result, or its exit was taken or is no longer kept; -EREMOTE
 * if it is on another node; -ETIMEDOUT, -ECANCELED, -EINTR.
 * Context: any thread or fiber, not a step; waits; cancellation point. */
WEFT_API int weft_actor_join(weft_pid pid, weft_buf **result, int64_t deadline);

/* weft_actor_kill: end the actor with -ECANCELED before its next step, even if it traps exits.
 * weft_actor_cancel: ask the actor to end, by an event WEFT_EVENT_CANCEL.
 *
 * reason: NULL, or text that is copied into the event's buf.
 * Returns 0; -ESRCH if the actor has ended; -ENOMEM. For an actor on another node weft_actor_kill
 * returns -EREMOTE, and weft_actor_cancel an error of the route (<weft/remote.h>).
 * Context: any thread, fiber or step; does not wait. */
WEFT_API int weft_actor_kill(weft_pid pid);
WEFT_API int weft_actor_cancel(weft_pid pid, const char *reason);

/* --- in a step ------------------------------------------------------------------------------ */

/* Return the actor that runs here, in its step or on its fiber; NULL if there is none. Context: any
 * thread; does not wait. */
WEFT_API weft_actor *weft_actor_self(void);
/* Return the actor's state (state_bytes bytes), its PID, its host. Context: the actor itself; none
 * of them waits. */
WEFT_API void *weft_actor_state(weft_actor *self);
WEFT_API weft_pid weft_actor_pid(const weft_actor *self);
WEFT_API weft_host *weft_actor_host(const weft_actor *self);
/* Take the event's buf: the caller owns the returned buffer and the event's buf becomes NULL.
 *
 * Returns the buffer, or NULL if the event has none or it was taken before.
 * Context: the step or fiber actor that received the event; does not wait. */
WEFT_API weft_buf *weft_actor_take_buf(const struct weft_actor_event *event);

/* --- commands -------------------------------------------------------------------------------- */

/* A command: work that an actor requests without waiting. Each command has a number, for which the
 * host has a handler. */
struct weft_command {
    unsigned id;
    uint64_t tag; /* chosen by the actor; returned in the completion */
    weft_pid actor;
    weft_host *host;
    weft_buf *arg; /* owned by the handler; may be NULL */
};

/* A command handler. Called on the actor's worker after the step; must not wait. It arranges that
 * weft_command_complete is called exactly once, now or later, from any thread, and returns 0. If it
 * returns an error, that error completes the command. */
typedef int (*weft_command_fn)(const struct weft_command *command, void *arg);

/* Register the handler of a command. Call it before the host's first actor is spawned.
 *
 * id: WEFT_COMMAND_USER .. 65535; smaller numbers belong to Weft (<weft/actor_out.h>). arg:
 * passed to fn, borrowed.
 * Returns 0; -EEXIST if the command has a handler; -EBUSY if an actor was spawned already; -EINVAL
 * if id is out of range or fn is NULL; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_host_handle(weft_host *host, unsigned id, weft_command_fn fn, void *arg);

/* Complete the command of this actor that has this tag, with an error or with `buf`.
 *
 * error: 0 or a negative errno. buf: taken, also on an error; NULL is allowed.
 * Returns 0; -ESRCH if the actor has ended, which is no fault of the caller; -ENOMEM: the actor was
 * not notified, try again without `buf`, which is gone.
 * Context: any thread; does not wait. */
WEFT_API int weft_command_complete(weft_pid actor, uint64_t tag, int error, weft_buf *buf);

/* --- inspection ------------------------------------------------------------------------------- */

enum weft_actor_state {
    WEFT_ACTOR_READY,
    WEFT_ACTOR_RUNNING,
    WEFT_ACTOR_BLOCKED,
    WEFT_ACTOR_IDLE,
    WEFT_ACTOR_COMPLETE,
};
/* Return the name of a state, a static string. Context: any thread; does not wait. */
WEFT_API const char *weft_actor_state_name(enum weft_actor_state state);

struct weft_actor_info {
    /* parent: the actor that spawned this one, which may have ended; none if no actor did. */
    weft_pid pid, parent;
    const char *kind;
    /* its first name, truncated if needed; "": none */
    char name[32];
    enum weft_actor_state state; /* a fiber actor is idle in receive, blocked in other waits */
    bool fiber;
    unsigned mailbox;  /* queued messages */
    uint64_t steps;    /* for a fiber actor: events received */
    const char *topic; /* of the last message it received; NULL: none */
    int64_t age_ns;
};
/* Describe an actor.
 *
 * Returns 0 and *out; -ESRCH if the actor has ended; -EREMOTE if it is on another node.
 * Context: any thread; does not wait. */
WEFT_API int weft_actor_info(weft_pid pid, struct weft_actor_info *out);

struct weft_host_stats {
    /* dead_letters: messages that no actor has read, and copies of recurring messages lost for lack
     * of memory. */
    uint64_t live, spawned, ended, dead_letters;
    /* Of the host's pool: `executed`: turns run on a worker; `stolen`: how many of them an idle
     * worker took from another worker; `ready`: turns that are runnable now. */
    unsigned workers;
    uint64_t executed, stolen, ready;
};
/* Read the host's counters. Context: any thread; does not wait. */
WEFT_API void weft_host_stats(weft_host *host, struct weft_host_stats *out);

/* --- calls ---------------------------------------------------------------------------------- */

/* Calls: a request to an actor and its reply.
 *
 * The actor receives an event WEFT_EVENT_CALL, a message whose tag is the call's reference, and
 * answers with weft_actor_reply: in that step, in a later step, or by passing the reference on to
 * another actor. References are never reused: a reply that is late, or a second reply, is counted
 * and dropped.
 *
 * A call ends exactly once: by the reply, at its deadline, or immediately with an error of the
 * runtime:
 *
 *   -ESRCH       the actor had ended and never received the call
 *   -EOWNERDEAD  the actor ended before it replied, whether it had seen the call or not and
 *                however it ended: normally, with an error, killed, or to be restarted by its
 *                supervisor; or it was upgraded and its new code did not take the call over
 *                (<weft/supervisor.h>). The request may have been carried out
 *   -ENOBUFS     the mailbox was full and the call was refused, or dropped
 *                (WEFT_MAILBOX_DROP_OLDEST)
 *
 * So when an actor passes a reference on and then ends, the call ends as well, unless it was
 * transferred (weft_actor_call_transfer). Calls do not reach other nodes (-EREMOTE).
 */

/* Call an actor and wait for its reply; also waits for mailbox capacity.
 *
 * topic, request: as in weft_actor_send; request is taken, also on an error. reply: NULL, or
 * receives the reply, owned, which may be NULL.
 * Returns 0 and *reply; the error given to weft_actor_reply; -ESRCH, -EOWNERDEAD, -ENOBUFS as
 * above; -ETIMEDOUT, -ECANCELED, -EINTR: the request may be carried out all the same; -EREMOTE if
 * the actor is on another node; -ENOMEM.
 * Context: any thread or fiber; waits; cancellation point. Not in a step: use weft_out_call
 * there. */
WEFT_API int weft_actor_call(weft_pid to, weft_buf **reply, const char *topic, weft_buf *request,
                             int64_t deadline);

/* Reply to a call, with an error (a negative errno) or with `buf`.
 *
 * buf: taken, also on an error; NULL is allowed.
 * Returns 0; -ESRCH if no caller waits for this reply any longer.
 * Context: any thread, fiber or step; does not wait. */
WEFT_API int weft_actor_reply(uint64_t call, int error, weft_buf *buf);

/* Make `to` responsible for the reply: from now on the call ends when `to` ends, and no longer when
 * the called actor ends. Transfer first, then send the reference to `to`. In the `convert` function
 * of an upgrade, transferring to the actor's own PID lets the new code take the call over.
 *
 * Returns 0; -ESRCH if no caller waits for the reply any longer; -EOWNERDEAD if `to` has ended, and
 * -EREMOTE if it is on another node: the call stays where it was.
 * Context: any thread, fiber or step; does not wait. */
WEFT_API int weft_actor_call_transfer(uint64_t call, weft_pid to);

/* Counters for the whole process. */
struct weft_actor_call_stats {
    uint64_t calls;
    uint64_t late; /* replies without a waiting caller */
};
/* Read the counters. Context: any thread; does not wait. */
WEFT_API void weft_actor_call_stats(struct weft_actor_call_stats *out);

/* --- delayed and periodic messages ---------------------------------------------------------- */

/* Delayed messages: sent to an actor at a given time, once or periodically.
 *
 * They run on the timer wheels of the receiver's host and are dropped when the receiver ends, so
 * that an ended actor has no timers. A delayed message is never early; it is late by at most one
 * tick plus the time the host is busy.
 */

/* Send a message when the deadline comes; one in the past sends it as soon as possible, still by a
 * timer. The event has no `from`. If the mailbox is full at that time
 * the message becomes a dead letter.
 *
 * topic, buf: as in weft_actor_send; buf is taken, also on an error. ref: NULL, or receives a
 * reference for weft_actor_send_cancel, which is never reused.
 * Returns 0; -ESRCH if the actor has ended; -EREMOTE if it is on another node; -ENOMEM.
 * Context: any thread, fiber or step; does not wait. */
WEFT_API int weft_actor_send_at(weft_pid to, uint64_t *ref, const char *topic, uint64_t tag,
                                weft_buf *buf, int64_t deadline);
/* Send a message at first, first + period, first + 2 * period, ...: the schedule does not drift.
 * Periods that were missed are combined into one message. Each message has its own view of the same
 * bytes. Otherwise as weft_actor_send_at.
 *
 * Returns as weft_actor_send_at; also -EINVAL if period_ns is not positive.
 * Context: any thread, fiber or step; does not wait. */
WEFT_API int weft_actor_send_every(weft_pid to, uint64_t *ref, const char *topic, uint64_t tag,
                                   weft_buf *buf, int64_t first, int64_t period_ns);

/* Cancel a delayed message; a recurring message is not sent again.
 *
 * Returns 0 if the message was pending and is now never sent; -ENOENT if it was sent, was
 * cancelled, its actor has ended, or the reference was never valid. There is no third outcome.
 * Context: any thread, fiber or step; does not wait. */
WEFT_API int weft_actor_send_cancel(uint64_t ref);

/* --- fiber actors --------------------------------------------------------------------------- */

/* Fiber actors: actors written as one sequential function that waits for its next event.
 *
 *     static int clerk(weft_actor *self, weft_buf **result)
 *     {
 *         const struct weft_actor_event *event;
 *         (void)self, (void)result;
 *         while (weft_actor_receive(&event, WEFT_FOREVER) == 0 &&
 *                event->kind == WEFT_EVENT_MESSAGE)
 *             weft_actor_send(event->from, "done", event->tag, weft_actor_take_buf(event),
 *                             WEFT_BY_POLICY);
 *         return 0;
 *     }
 *     static const struct weft_actor_kind clerks = {.name = "clerk", .run = clerk};
 *
 * A kind with a `run` function makes fiber actors. They have a PID, a mailbox, init, close, a state
 * and an end like all actors, and are sent to, called, cancelled and joined like all actors. In
 * addition they have a stack and may wait: in weft_actor_receive and in every call in which a fiber
 * may wait. Messages that arrive meanwhile are queued and count in the mailbox, as do messages that
 * a selective receive skips. A fiber actor whose mailbox never becomes empty still yields after
 * `turn_events` events (struct weft_host_opts). The return value of `run` ends the actor: 0 and
 * *result, or an error. weft_fiber_exit ends the actor without a result.
 *
 *   weft_actor_cancel  queues an event, WEFT_EVENT_CANCEL, for a later receive. It ends no wait
 *   weft_actor_kill    calls weft_cancel as well: every wait outside a shield, and every receive,
 *                      even if messages are queued, returns -ECANCELED. `run` should return soon;
 *                      whatever it returns, the actor ends with -ECANCELED. A fiber that has not
 *                      started yet never starts
 *   weft_host_stop     cancels first; kills the actors that remain at the deadline. An actor that
 *                      does not return even then keeps the host from stopping: -EBUSY
 */

/* Receive the next event: non-message events first, then messages in order of arrival.
 *
 * out: borrowed, with its buf unless weft_actor_take_buf takes it, until the next receive or the
 * end of the actor.
 * Returns 0 and *out; -ETIMEDOUT if no event arrives before the deadline (a deadline of 0 has
 * passed already, so the call polls); -ECANCELED if the actor was killed or its fiber cancelled;
 * -EINTR after weft_fiber_interrupt.
 * Context: fiber actors only, anything else is a caller's bug; waits; cancellation point. */
WEFT_API int weft_actor_receive(const struct weft_actor_event **out, int64_t deadline);

/* Receive the next message or call with this topic (weft_actor_receive_topic), or the next event
 * that the filter accepts (weft_actor_receive_if). Other events stay queued, in order, for later
 * receives.
 *
 * wanted: must not wait; it may be called more than once for the same event.
 * Returns and Context: as weft_actor_receive. */
WEFT_API int weft_actor_receive_topic(const struct weft_actor_event **out, const char *topic,
                                      int64_t deadline);
typedef bool (*weft_actor_filter_fn)(const struct weft_actor_event *event, void *arg);
WEFT_API int weft_actor_receive_if(const struct weft_actor_event **out, weft_actor_filter_fn wanted,
                                   void *arg, int64_t deadline);

/* --- names and groups ----------------------------------------------------------------------- */

/* Registered names and groups of actors, per host.
 *
 * A name belongs to one actor, until it is unregistered or the actor ends; an actor may have
 * several names. A group is a set of actors; it exists while it has members. Names and groups are
 * kept in hash tables of the host, each under a short lock. A name is not empty and may have any
 * length: it is never truncated.
 */

/* Register a name for an actor of this host. The name is copied.
 *
 * Returns 0; -EEXIST if the name is taken, by this actor or by another one; -ESRCH if the actor has
 * ended; -EINVAL if the actor belongs to another host or node, or the name is empty; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_actor_register(weft_host *host, const char *name, weft_pid pid);
/* Unregister a name, whichever actor has it.
 *
 * Returns 0; -ENOENT if no running actor has the name.
 * Context: any thread; does not wait. */
WEFT_API int weft_actor_unregister(weft_host *host, const char *name);
/* Look up the actor that has a name.
 *
 * Returns 0 and the PID in *out; -ENOENT if no running actor has the name. The actor may have ended
 * by the time the caller sends to it: a send then returns -ESRCH.
 * Context: any thread; does not wait. */
WEFT_API int weft_actor_whereis(weft_host *host, weft_pid *out, const char *name);
/* Write one of the actor's names, the one registered last, into `buf`.
 *
 * Returns the length of the name, as snprintf does; -ENOENT if the actor has no name; -ESRCH if it
 * has ended or is on another node.
 * Context: any thread; does not wait. */
WEFT_API int weft_actor_name(weft_pid pid, char *buf, size_t size);

/* Add an actor of this host to a group, which is created if it does not exist. Joins are counted:
 * an actor that has joined twice is a member until it has left twice, or ended.
 *
 * Returns 0; -ESRCH if the actor has ended; -EINVAL if the actor belongs to another host or node,
 * or the name of the group is empty; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_actor_group_join(weft_host *host, const char *group, weft_pid pid);
/* Undo one join of an actor.
 *
 * Returns 0; -ENOENT if the actor is not a member.
 * Context: any thread; does not wait. */
WEFT_API int weft_actor_group_leave(weft_host *host, const char *group, weft_pid pid);
/* List the members of a group, each once, in the order in which they joined.
 *
 * Returns the number of members; the PIDs of the first `capacity` of them are written to `out`.
 * Context: any thread; does not wait. */
WEFT_API size_t weft_actor_group_members(weft_host *host, weft_pid *out, size_t capacity,
                                         const char *group);
/* Send every member of a group a message with its own view of `buf`, which is borrowed and may be
 * NULL. `topic` and `deadline` as in weft_actor_send.
 *
 * Returns the number of members the message was sent to: a member whose mailbox refused it, or
 * which ended meanwhile, does not count, nor does one for whose view there was no memory; -ENOMEM
 * if the list of members could not be made, and then nothing was sent.
 * Context: any thread, fiber or step; waits as weft_actor_send does, for each member in turn and
 * for all of them until the same deadline. */
WEFT_API int64_t weft_actor_group_publish(weft_host *host, const char *group, const char *topic,
                                          uint64_t tag, const weft_buf *buf, int64_t deadline);

/* --- topics --------------------------------------------------------------------------------- */

/* Topic dispatch: one handler function per topic pattern, and a default handler for the rest.
 *
 *     static const struct weft_topic_handler topics[] = {
 *         {"order.*", on_order},
 *         {"@events", on_event},
 *         {NULL, on_other},
 *     };
 *     static int step(weft_actor *self, const struct weft_actor_event *events, size_t n,
 *                     weft_out *out)
 *     {
 *         weft_out_idle(out);
 *         return weft_topic_dispatch(self, topics, events, n, out);
 *     }
 *
 * Topics that begin with '@' are reserved for Weft: events that are not messages have the topic
 * "@events".
 */

/* Match a topic against a pattern. '*' matches any number of bytes, including none; '?' matches
 * one byte; every other byte matches itself. A NULL topic counts as "".
 *
 * Returns true if the whole topic matches.
 * Context: any thread; does not wait. */
WEFT_API bool weft_topic_match(const char *pattern, const char *topic);

struct weft_topic_handler {
    const char *pattern; /* NULL: the default handler, which ends the table */
    /* An error ends the actor. NULL: such events are dropped, and calls are answered with
     * -ENOSYS. */
    int (*on)(weft_actor *self, const struct weft_actor_event *event, weft_out *out);
};

/* Pass each event, in order, to the first handler whose pattern matches its topic, or else to the
 * default handler. The table must end with the default handler.
 *
 * Returns 0, or the error of the first handler that fails, which stops the dispatch.
 * Context: in a step, or in a fiber actor; waits only if a handler does. */
WEFT_API int weft_topic_dispatch(weft_actor *self, const struct weft_topic_handler *topics,
                                 const struct weft_actor_event *events, size_t n, weft_out *out);

/* --- inspection ----------------------------------------------------------------------------- */

/* Inspecting actors: list them, dump them as text or JSON, read an actor's own statistics, and
 * trace a message on its way through actors. For consoles, monitoring and debugging: every call
 * works on a running system, and actors keep running while they are inspected. */

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
WEFT_API int weft_actor_dump(weft_host *host, FILE *out, enum weft_dump_format format, size_t max);

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
 * change the trace. *trace_event is borrowed for the call. */
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
