/* Actors: state machines that share nothing and talk by messages.
 *
 * An actor is run in steps. A step is given what has come since the last one, does something with
 * its own state, and says by its output what it does next:
 *
 *     static int count(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out
 *     *out) {
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
 * Actors live in a host, on its pool; one at a time has a thread, for one step, and then others do.
 * A step must not wait: what takes time is a command (weft_out_command), whose completion comes as
 * an event with its tag, in any order.
 *
 *   output                without commands                        with commands, which go out
 *                                                                 first
 *   weft_out_continue     stepped again, after others             the same; completions come when
 *                                                                 they come
 *   weft_out_idle         until a message or another event        until a message or a completion
 *   weft_out_wait         as weft_out_idle                        until a completion; messages are
 *                                                                 kept for later
 *   weft_out_done         ends, with a result                     the same; nobody hears of the
 *                                                                 completions
 *   weft_out_exit         ends, by a reason (<weft/relation.h>)   the same; nobody hears of the
 *                                                                 completions
 *   weft_out_upgrade      stepped again, by the new code          the same; completions come to the
 *                                                                 code there is then
 *   none of these         as weft_out_idle                        as weft_out_wait
 *
 * For weft_out_wait, commands of earlier steps that are not complete count as well. The step that
 * follows such a wait has no messages: completions, and whatever else is not a message (a cancel,
 * say). A completion that is there before the step has returned ends the wait, too. Commands with
 * the same tag have a completion each.
 *
 * A step that returns an error ends the actor by it; what it asked for is dropped. If memory is so
 * short that a command's error cannot be told, that ends the actor, too, by -ENOMEM. `close` is
 * called once, whatever the end was.
 */
#ifndef WEFT_ACTOR_H
#define WEFT_ACTOR_H

#include <weft/buf.h>
#include <weft/pool.h>

WEFT_BEGIN_DECLS

typedef struct weft_host weft_host;
typedef struct weft_actor weft_actor;
typedef struct weft_out weft_out;
struct weft_actor_kind;

/* Who an actor is. Never another's, also not after its end. */
typedef struct weft_pid {
    uint32_t node, host;
    uint64_t id;
} weft_pid;

static inline bool weft_pid_equal(weft_pid a, weft_pid b)
{
    return a.id == b.id && a.host == b.host && a.node == b.node;
}
static inline bool weft_pid_is_none(weft_pid pid)
{
    return pid.id == 0;
}

/* "<0.1.17.3>": node, host, slot, generation. As snprintf. */
WEFT_API int weft_pid_text(weft_pid pid, char *buf, size_t size);
/* -EINVAL. */
WEFT_API int weft_pid_parse(weft_pid *out, const char *text);

/* --- hosts ----------------------------------------------------------------------------- */

struct weft_host_opts {
    const char *name;        /* of any length; default "actors" */
    unsigned workers;        /* default: the CPUs this process may use */
    enum weft_driver driver; /* of its pool; default: auto */
    uint64_t max_actors;     /* exact; default: as memory allows */
    unsigned mailbox; /* messages that wait for one actor, unless its kind says otherwise; default
                         65,536, at most 2^24 - 1 */
    unsigned batch; /* events for one step at most, unless its kind says otherwise; 1 .. 64, default
                       64 */
    /* One turn of an actor on a worker, before others have theirs: it ends after the step in which
     * either is reached. */
    unsigned turn_events; /* default 1024 */
    int64_t turn_ns;      /* from the end of the turn's first step; default 200 us */
    /* Ends that nobody waited for are kept for weft_actor_join: those of the last so many actors
     * that ended by an error or with a result; default 1024, at most 2^20. */
    unsigned results;
};

/* Creates it and starts its pool. -EINVAL, -EAGAIN, -ENOMEM. -EMFILE: there are 65,535. */
WEFT_API int weft_host_create(weft_host **out, const struct weft_host_opts *opts);
/* Refuses new actors, sends every one at least one cancel event, and waits until all have ended.
 * Until then everything else works as ever, so that an actor may clean up by commands; at the
 * deadline those that are left are ended, before their next step. 0, or how many these were.
 * -EINPROGRESS: called by one of its actors; call it again from outside. -EBUSY: some have not
 * ended within a second after the deadline (a step that does not return, a busy machine); call it
 * again. -ECANCELED, -EINTR. */
WEFT_API int weft_host_stop(weft_host *host, const char *reason, int64_t deadline);
/* One that is stopped. NULL is fine. */
WEFT_API void weft_host_destroy(weft_host *host);
WEFT_API const char *weft_host_name(const weft_host *host);

/* Who hears of every actor's life. The hooks of a host are called in the order in which they were
 * added. */
struct weft_host_hook {
    const char *name; /* borrowed for as long as the host */
    /* After init, before anybody can know the actor, on the thread that spawns it. An error refuses
     * it: the spawn answers it, hooks that had agreed hear of the end, and the actor is closed.
     * NULL: agrees. */
    int (*on_start)(weft_host *host, weft_pid pid, const struct weft_actor_kind *kind, void *arg);
    /* After close, before anybody else hears of the end; in the reverse order. `reason`: 0, or a
     * negative errno. */
    void (*on_end)(weft_host *host, weft_pid pid, const struct weft_actor_kind *kind, int reason,
                   void *arg);
    void *arg;
};
/* Before the host's first actor. -EEXIST: there is one of this name. -EBUSY: too late. -EINVAL,
 * -ENOMEM. */
WEFT_API int weft_host_add_hook(weft_host *host, const struct weft_host_hook *hook);

/* A message that no actor will read: it was sent to one that has ended, waited for one that ended,
 * or was dropped. */
struct weft_dead_letter {
    weft_pid to, from;
    const char *topic;
    uint64_t tag;
    const weft_buf *buf; /* borrowed, or NULL */
};
typedef void (*weft_dead_letter_fn)(weft_host *host, const struct weft_dead_letter *letter,
                                    void *arg);
/* Called for each, on whatever thread found it; must not wait, may send. The statistics count them
 * anyway. Before the host's first actor. -EBUSY: too late. */
WEFT_API int weft_host_on_dead_letter(weft_host *host, weft_dead_letter_fn fn, void *arg);

/* --- actors ----------------------------------------------------------------------------- */

enum weft_actor_event_kind {
    WEFT_EVENT_MESSAGE,  /* `topic`, `tag` and `buf` as they were sent, `from` */
    WEFT_EVENT_COMPLETE, /* of the command with this `tag`: `error`, or `buf` */
    WEFT_EVENT_CALL,     /* a message whose sender waits for weft_actor_reply(tag, ...):
                            <weft/actor_call.h> */
    WEFT_EVENT_CANCEL,   /* it is asked to end; `buf`, if any, says why */
    WEFT_EVENT_EXIT, /* by `error`, `reason`: one it is linked to, `from`, has ended (`tag` 1), or
                        somebody wants it to end (0) */
    WEFT_EVENT_DOWN, /* one it monitors, `from`, has ended by `error`, `reason`; `tag` is the
                        reference */
    WEFT_EVENT_UPGRADE, /* its new code is there, or by `error` is not: weft_out_upgrade */
};

struct weft_actor_event {
    enum weft_actor_event_kind kind;
    int error; /* 0 or a negative errno */
    uint64_t tag;
    weft_pid from; /* of a message that a plain thread or fiber has sent, none; of a send's
                      completion, whom it was sent to */
    const char *topic;
    weft_buf *buf; /* the step's: freed after it, unless weft_actor_take took it */
    /* Of an end, what was said about it, or NULL; borrowed until the step is over. */
    const weft_buf *reason;
    uint32_t trace; /* 0, or which chain of messages it belongs to: <weft/actor_look.h> */
};

/* What becomes of a message to an actor that has as many as it may. */
enum weft_mailbox_policy {
    WEFT_MAILBOX_REFUSE, /* the sender is told: -ENOBUFS */
    WEFT_MAILBOX_DROP,   /* the oldest is dropped, as a dead letter */
    WEFT_MAILBOX_WAIT, /* a sender that is a fiber waits for room, as do messages of weft_out_send;
                          steps and plain threads are told */
};

struct weft_actor_kind {
    const char *name;
    size_t state_bytes; /* zeroed; weft_actor_state */
    /* The entry points it has, ended by NULL; NULL: any, and the method is init's affair. */
    const char *const *methods;
    /* Before anybody can know the actor, on the thread that spawns it. An error: there never was
     * one, and close is not called. `input` is borrowed. NULL: nothing to do. */
    int (*init)(weft_actor *self, const char *method, const weft_buf *input);
    int (*step)(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out);
    /* Instead of step: they are fiber actors, <weft/receive.h>. */
    int (*run)(weft_actor *self, weft_buf **result);
    size_t stack_bytes; /* of these; as in struct weft_fiber_opts */
    /* Exactly once. NULL: nothing to do. */
    void (*close)(weft_actor *self);
    /* Before close, of one that does not end by itself: it was killed, an exit that it does not
     * trap came, or its host's stop has lost its patience. To stop what works for it elsewhere.
     * NULL: nothing to do. */
    void (*abort)(weft_actor *self);
    /* What it has to say of itself, as snprintf: weft_actor_stats. On the actor's own thread,
     * between steps. NULL: nothing. */
    int (*stats)(weft_actor *self, char *buf, size_t size);
    unsigned mailbox; /* messages that wait for one of them; 0: the host's */
    unsigned batch;   /* events for one step at most, up to 64; 0: the host's */
    enum weft_mailbox_policy policy;
    bool trap; /* ends of those it is linked to are events: <weft/relation.h> */
};

/* Starts an actor. From any thread, fiber or step. -EINVAL: the kind has no step and no run, or
 * both. -ENOENT: it has no such method. What init answered, or a hook. -EAGAIN: max_actors.
 * -ESHUTDOWN, -ENOMEM. */
WEFT_API int weft_actor_spawn(weft_host *host, weft_pid *out, const struct weft_actor_kind *kind,
                              const char *method, const weft_buf *input);

/* Sends, and does not wait for it to arrive. Messages from one sender to one actor arrive in order.
 * `topic` is borrowed for ever: a literal, static storage, or what weft_topic of <weft/route.h>
 * gives for a text. Anything else stops the program; in steps and fibers of a release build only a
 * sample of the messages is checked. `buf` is taken, also on an error. -ESRCH:
 * there is no such actor, any more. -ENOBUFS: its mailbox is full, and its policy says so; while
 * others wait for room it counts as full. -ECANCELED, -EINTR: of a fiber that waited by
 * WEFT_MAILBOX_WAIT. -EHOSTUNREACH: of another node to which there is no way (<weft/route.h>); else
 * what that receiver answers. -ENOMEM. */
WEFT_API int weft_actor_send(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf);

/* The same, but a fiber or a plain thread waits for room until the deadline, whatever the mailbox's
 * policy, behind those who wait already: -ETIMEDOUT, -ECANCELED, -EINTR. -ESRCH also if the actor
 * ends meanwhile. In a step there is no waiting: -ENOBUFS (weft_out_send_until of
 * <weft/actor_command.h>). */
WEFT_API int weft_actor_send_until(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf,
                                   int64_t deadline);

/* Waits for its end, in a fiber or a plain thread: 0 and its result, which is taken from the first
 * who asks (the others get none), or the error it ended by. Its names and timers are gone then, and
 * who is to hear of its end has been told. Of one that has ended before, while nobody waited: the
 * same, once, as long as its host keeps the end (`results` of struct weft_host_opts) and is there.
 * -ESRCH: there never was one; it has ended before, normally and without a result; its end was
 * taken, or is not kept any more. -ETIMEDOUT, -ECANCELED, -EINTR. -EREMOTE. */
WEFT_API int weft_actor_join(weft_pid pid, weft_buf **result, int64_t deadline);

/* Ends it before its next step, by -ECANCELED, whatever it traps; asks it to end, by an event.
 * -ESRCH, -ENOMEM. -EREMOTE: to kill one of another node. */
WEFT_API int weft_actor_kill(weft_pid pid);
WEFT_API int weft_actor_cancel(weft_pid pid, const char *reason);

/* --- in a step ------------------------------------------------------------------------------ */

/* The actor that runs here: its step, or its fiber. NULL: none. */
WEFT_API weft_actor *weft_actor_self(void);
WEFT_API void *weft_actor_state(weft_actor *self);
WEFT_API weft_pid weft_actor_pid(const weft_actor *self);
WEFT_API weft_host *weft_actor_host(const weft_actor *self);
/* The event's buf is the caller's from now on. */
WEFT_API weft_buf *weft_actor_take(const struct weft_actor_event *event);

WEFT_API void weft_out_continue(weft_out *out);
WEFT_API void weft_out_idle(weft_out *out);
WEFT_API void weft_out_wait(weft_out *out);
/* Takes `result`, or NULL. */
WEFT_API void weft_out_done(weft_out *out, weft_buf *result);

/* --- commands -------------------------------------------------------------------------------- */

/* What an actor asks for without waiting. Each has a number, for which the host has a handler. */
struct weft_command {
    unsigned id;
    uint64_t tag; /* the actor's own */
    weft_pid actor;
    weft_host *host;
    weft_buf *arg; /* the handler's to free */
};

/* Called on the actor's worker, after the step; must not wait. It sees to it that weft_complete is
 * called once, now or later, from any thread, and returns 0. An error completes the command by
 * it. */
typedef int (*weft_command_fn)(const struct weft_command *command, void *arg);

/* Registers the handler of a command. Before the host's first actor. -EEXIST: it has a handler.
 * -EBUSY: too late. -EINVAL: `id` is not one of the program's own, 256 .. 65535 (WEFT_COMMAND_OWN;
 * those below are Weft's, <weft/actor_command.h>), or there is no function. -ENOMEM. */
WEFT_API int weft_host_handle(weft_host *host, unsigned id, weft_command_fn fn, void *arg);

/* The command of this actor with this tag is complete: by an error, or with `buf`, which is taken.
 * Any thread. -ESRCH: the actor has ended, which is nobody's fault. -ENOMEM: it was not told, try
 * again; `buf` is gone. */
WEFT_API int weft_complete(weft_pid actor, uint64_t tag, int error, weft_buf *buf);

/* Asks for it when the step has returned, in the order of these calls. Takes `arg`, also on an
 * error. One without a handler completes by -ENOSYS. -ENOMEM. */
WEFT_API int weft_out_command(weft_out *out, unsigned id, uint64_t tag, weft_buf *arg);

/* --- asking ----------------------------------------------------------------------------------- */

enum weft_actor_state {
    WEFT_ACTOR_READY,
    WEFT_ACTOR_RUNNING,
    WEFT_ACTOR_BLOCKED,
    WEFT_ACTOR_IDLE,
    WEFT_ACTOR_COMPLETE,
};
WEFT_API const char *weft_actor_state_name(enum weft_actor_state state);

struct weft_actor_info {
    weft_pid pid, parent; /* parent: the actor that has spawned it; it may have ended. None: it was
                             no actor */
    const char *kind;
    char name[32];               /* its first, cut if need be (<weft/names.h>); "": it has none */
    enum weft_actor_state state; /* of a fiber actor: idle in receive, blocked in other waits */
    bool fiber;
    unsigned mailbox;  /* messages that wait */
    uint64_t steps;    /* of a fiber actor: events it has received */
    const char *topic; /* of the last message it was given; NULL: none, or it had no topic */
    int64_t age_ns;
};
/* -ESRCH. -EREMOTE: it is of another node. */
WEFT_API int weft_actor_look(weft_pid pid, struct weft_actor_info *out);

struct weft_host_stats {
    uint64_t live, spawned, ended, dead_letters;
    /* Of its pool: times an actor had a worker, how often it was another worker's that was idle,
     * and how many are ready now. */
    unsigned workers;
    uint64_t executed, stolen, ready;
};
WEFT_API void weft_host_stats(weft_host *host, struct weft_host_stats *out);

WEFT_END_DECLS
#endif
