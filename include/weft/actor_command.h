/* The commands that every host handles, and their numbers.
 *
 *   1 .. 9       actors: send, call, spawn, monitor
 *   10 .. 29     time
 *   30 .. 39     sockets           with weft_host_handle_io (weft/actor_io.h)
 *   50 .. 59     descriptors       the same
 *   140 .. 149   functions
 *   .. 255       Weft's: weft_host_handle refuses them
 *   256 .. 65535 the program's own
 *
 * A step asks by the call that belongs to the command, which takes its buffers, also on an error,
 * and answers 0 or -ENOMEM. The completion has the tag. What is still under way when the actor ends
 * is given up: timers are cancelled, functions that have not begun never run, and nobody hears of
 * the rest.
 */
#ifndef WEFT_ACTOR_COMMAND_H
#define WEFT_ACTOR_COMMAND_H

#include <weft/actor.h>
#include <weft/blocking.h>

WEFT_BEGIN_DECLS

enum weft_command_id {
    WEFT_COMMAND_SEND = 1,
    WEFT_COMMAND_CALL = 2, /* weft/actor_call.h */
    WEFT_COMMAND_SPAWN = 3,
    WEFT_COMMAND_MONITOR = 4,
    WEFT_COMMAND_TIMER = 10,
    WEFT_COMMAND_READY = 30, /* these: weft/actor_io.h */
    WEFT_COMMAND_ACCEPT = 31,
    WEFT_COMMAND_CONNECT = 32,
    WEFT_COMMAND_READ = 50,
    WEFT_COMMAND_WRITE = 51,
    WEFT_COMMAND_BLOCKING = 140,
    WEFT_COMMAND_FUNCTION = 141, /* weft/funcpool.h */
    WEFT_COMMAND_OWN = 256,      /* the first of the program's own */
};

/* Completes at the time; after so many ns. */
WEFT_API int weft_out_at(weft_out *out, uint64_t tag, int64_t deadline);
WEFT_API int weft_out_after(weft_out *out, uint64_t tag, int64_t delay_ns);

/* A message, sent when the step is over, from this actor. Completes when it has a place in the
 * mailbox, from whom it was sent to, or by what weft_actor_send answers. To one of
 * WEFT_MAILBOX_WAIT that has no room it waits, behind those who wait already, and the actor goes on
 * meanwhile; -ESRCH: that one has ended. What this actor sends there while it waits waits behind
 * it, or is refused: messages arrive in order. If this actor ends first, the message is a dead
 * letter. Two that wait for room at one another by weft_out_wait, and so take no messages, wait for
 * ever: there is weft_out_send_until.
 *
 * Who has waited may send on in the step that has the completion, though others wait, as long as
 * there is room: up to 256 messages. So a step that has much to send does so by weft_actor_send,
 * and what that refuses (-ENOBUFS) it sends by this. */
WEFT_API int weft_out_send(weft_out *out, uint64_t tag, weft_pid to, const char *topic,
                           uint64_t message_tag, weft_buf *buf);
/* The same, but it waits whatever the mailbox's policy, until the deadline: -ETIMEDOUT, and the
 * message is gone. To another node neither waits. */
WEFT_API int weft_out_send_until(weft_out *out, uint64_t tag, weft_pid to, const char *topic,
                                 uint64_t message_tag, weft_buf *buf, int64_t deadline);

/* An actor of this host, or of another. Completes by what weft_actor_spawn answers, or with a
 * buffer that has the new one's weft_pid. `method` is borrowed for ever; `input`, or NULL, is
 * taken. */
WEFT_API int weft_out_spawn(weft_out *out, uint64_t tag, weft_host *host,
                            const struct weft_actor_kind *kind, const char *method,
                            weft_buf *input);

/* Completes when the other has ended: by its reason, 0 if that was normal, and with what was said
 * about it, if anything; -ESRCH: it had ended before. -EINVAL: itself. -EREMOTE. (By an event of
 * its own, and to be taken back: weft_actor_monitor of <weft/relation.h>.) */
WEFT_API int weft_out_monitor(weft_out *out, uint64_t tag, weft_pid other);

/* A function with an input, and an output that it makes: 0, or a negative errno. */
typedef int (*weft_function)(const weft_buf *input, weft_buf **output, void *arg);

/* The function on a thread of the pool, NULL: the process's, where it may block. Completes by its
 * error, or with its output; or by what weft_blocking_run answers. `input`, or NULL, is taken. */
WEFT_API int weft_out_blocking(weft_out *out, uint64_t tag, weft_blocking_pool *pool,
                               weft_function fn, void *arg, weft_buf *input);

WEFT_END_DECLS
#endif
