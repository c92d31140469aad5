/* The built-in commands, which every host handles, and the ranges of command numbers.
 *
 *   1 .. 9        actors: send, call, spawn, monitor
 *   10 .. 29      time
 *   30 .. 39      sockets       (after weft_host_handle_io, <weft/actor_io.h>)
 *   50 .. 59      descriptors   (the same)
 *   140 .. 149    functions
 *   .. 255        reserved for Weft: weft_host_handle refuses them
 *   256 .. 65535  for the program
 *
 * A step issues a command with the function below that belongs to it. The function takes its
 * buffers, also on an error, and returns 0 or -ENOMEM. The completion event has the tag. Commands
 * that are unfinished when the actor ends are abandoned: timers are cancelled, functions that have
 * not begun never run, and the other completions are discarded.
 *
 * Context of all weft_out_* functions here: in a step, with its own `out`; they do not wait.
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
    WEFT_COMMAND_READY = 30, /* this and the next four: weft/actor_io.h */
    WEFT_COMMAND_ACCEPT = 31,
    WEFT_COMMAND_CONNECT = 32,
    WEFT_COMMAND_READ = 50,
    WEFT_COMMAND_WRITE = 51,
    WEFT_COMMAND_BLOCKING = 140,
    WEFT_COMMAND_FUNCTION = 141, /* weft/funcpool.h */
    WEFT_COMMAND_USER = 256,     /* first number for the program's own commands */
};

/* Complete at the deadline (weft_out_at), or after delay_ns (weft_out_after; 0 or less: as soon as
 * possible).
 *
 * Returns 0; -ENOMEM.
 * Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_at(weft_out *out, uint64_t tag, int64_t deadline);
WEFT_API int weft_out_after(weft_out *out, uint64_t tag, int64_t delay_ns);

/* Send a message from this actor after the step. The command completes when the message is admitted
 * to the receiver's mailbox, with `from` set to the receiver, or with an error of weft_actor_send.
 *
 * If the receiver's policy is WEFT_MAILBOX_WAIT and its mailbox is full, the message waits for
 * capacity, in order of arrival, while this actor continues to run; -ESRCH: the receiver ended
 * first. Later messages from this actor to the same receiver wait too, or are refused, so that
 * messages arrive in order. If this actor ends first, the message becomes a dead letter. Two actors
 * that wait for each other's capacity with weft_out_wait, and so take no messages, wait for ever:
 * use weft_out_send_until.
 *
 * An actor whose message had to wait gets a send credit: in the step that receives the completion
 * it may send up to 256 more messages to that receiver ahead of other waiting senders, as long as
 * the mailbox has capacity. So a step with much to send uses weft_actor_send, and sends what that
 * refuses (-ENOBUFS) with weft_out_send.
 * topic, buf: as in weft_actor_send; buf is taken, also on an error.
 * Returns 0; -ENOMEM.
 * Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_send(weft_out *out, uint64_t tag, weft_pid to, const char *topic,
                           uint64_t message_tag, weft_buf *buf);
/* Send a message as weft_out_send does, but wait for capacity until the deadline whatever the
 * receiver's policy. At the deadline the command completes with -ETIMEDOUT and the message is
 * freed. A message to another node never waits.
 *
 * Returns 0; -ENOMEM.
 * Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_send_until(weft_out *out, uint64_t tag, weft_pid to, const char *topic,
                                 uint64_t message_tag, weft_buf *buf, int64_t deadline);

/* Spawn an actor in this host or in another. The command completes with a buffer that holds the new
 * actor's weft_pid, or with an error of weft_actor_spawn.
 *
 * method: borrowed for ever: a literal or static storage. input: taken, also on an error; NULL is
 * allowed.
 * Returns 0; -ENOMEM.
 * Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_spawn(weft_out *out, uint64_t tag, weft_host *host,
                            const struct weft_actor_kind *kind, const char *method,
                            weft_buf *input);

/* Complete when `other` has ended: with its exit reason as the error (0: a normal end) and the
 * reason's text, if any, as buf. -ESRCH: it had ended before; -EINVAL: `other` is this actor;
 * -EREMOTE: it is on another node. (weft_actor_monitor of <weft/relation.h> reports by an event of
 * its own, and can be undone.)
 *
 * Returns 0; -ENOMEM.
 * Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_monitor(weft_out *out, uint64_t tag, weft_pid other);

/* A function from an input buffer to an output buffer. It borrows input and stores an owned buffer,
 * or nothing, in *output. Returns 0 or a negative errno. */
typedef int (*weft_function)(const weft_buf *input, weft_buf **output, void *arg);

/* Run the function on a thread of a blocking pool, where it may block. The command completes with
 * the function's error or its output, or with an error of weft_blocking_run.
 *
 * pool: NULL for the process-wide blocking pool; otherwise borrowed. input: taken, also on an
 * error; NULL is allowed.
 * Returns 0; -ENOMEM.
 * Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_blocking(weft_out *out, uint64_t tag, weft_blocking_pool *pool,
                               weft_function fn, void *arg, weft_buf *input);

WEFT_END_DECLS
#endif
