/* The output of a step: what follows the step, and the commands that it issues (weft_out_*). The
 * ranges of command numbers:
 *
 *   1 .. 9        actors: send, call, spawn, monitor
 *   10 .. 29      time
 *   30 .. 39      sockets       (after weft_host_handle_io, <weft/actor_io.h>)
 *   50 .. 59      descriptors   (the same)
 *   140 .. 149    functions
 *   .. 255        reserved for Weft: weft_host_handle refuses them
 *   256 .. 65535  for the program
 *
 * The built-in commands are those below; every host handles them. Each function takes its buffers,
 * also on an error, and returns 0 or -ENOMEM. The completion event has the tag. Commands
 * that are unfinished when the actor ends are abandoned: timers are cancelled, functions that have
 * not begun never run, and the other completions are discarded.
 *
 * Context of all weft_out_* functions here: in a step, with its own `out`; they do not wait.
 */
#ifndef WEFT_ACTOR_OUT_H
#define WEFT_ACTOR_OUT_H

#include <weft/actor.h>
#include <weft/blocking.h>
#include <weft/funcpool.h>

WEFT_BEGIN_DECLS

/* --- what follows a step -------------------------------------------------------------------- */

/* Set what follows this step; the table at the top of <weft/actor.h> describes each of them. The
 * last such call of a step wins.
 *
 * Context: in a step, with its own `out`; none of them waits. */
WEFT_API void weft_out_continue(weft_out *out);
WEFT_API void weft_out_idle(weft_out *out);
WEFT_API void weft_out_wait(weft_out *out);
/* End the actor normally after this step. result: for weft_actor_join; taken; NULL is allowed.
 *
 * Context: in a step, with its own `out`; does not wait. */
WEFT_API void weft_out_done(weft_out *out, weft_buf *result);

/* Exit after this step with a reason: 0 or a negative errno (a positive reason stops the program).
 * `text` says more, or is NULL; it is taken, also on an error.
 *
 * Returns 0; -ENOMEM: the actor exits with the reason, but without the text.
 * Context: a step, with its own `out`; does not wait. */
WEFT_API int weft_out_exit(weft_out *out, int reason, weft_buf *text);

/* Build the state of the new kind, which is zeroed, from the old state. What it moves it takes out
 * of the old state, which is closed afterwards. If it returns an error it has undone everything:
 * the old state is unchanged. */
typedef int (*weft_upgrade_fn)(weft_actor *self, void *old_state, void *new_state);

/* Upgrade the actor to another kind after this step and its commands. PID, mailbox, relations,
 * names and running commands stay.
 *
 * The next step gets an event WEFT_EVENT_UPGRADE: with `error` 0 it is a step of the new kind; with
 * an error it is a step of the old kind, with the old state. Each state is closed exactly once, by
 * its own kind: after a successful upgrade the old state is closed after `convert`. convert: NULL
 * keeps the state as it is, which needs the same state_bytes (otherwise -EINVAL in the event).
 *
 * Calls that are in the mailbox go to the new kind. Calls that the old kind has seen and not
 * answered belong to the state. If the state is kept, so are they. A new state made by `convert`
 * takes over the calls for which `convert` calls weft_actor_call_transfer(call,
 * weft_actor_pid(self)); the callers of the others get -EOWNERDEAD, unless the old state's close
 * answers them.
 *
 * Returns 0; -ENOMEM: no upgrade was requested.
 * Context: a step of a step actor, with its own `out`; does not wait. */
WEFT_API int weft_out_upgrade(weft_out *out, const struct weft_actor_kind *kind,
                              weft_upgrade_fn convert);

/* --- commands ------------------------------------------------------------------------------- */

/* Issue a command. Commands are submitted after the step has returned, in the order of these calls.
 * A command without a handler completes with -ENOSYS.
 *
 * arg: taken, also on an error; NULL is allowed.
 * Returns 0; -ENOMEM.
 * Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_command(weft_out *out, unsigned id, uint64_t tag, weft_buf *arg);

enum weft_command_id {
    WEFT_COMMAND_SEND = 1,
    WEFT_COMMAND_CALL = 2,
    WEFT_COMMAND_SPAWN = 3,
    WEFT_COMMAND_MONITOR = 4,
    WEFT_COMMAND_TIMER = 10,
    WEFT_COMMAND_READY = 30, /* this and the next four: weft_host_handle_io */
    WEFT_COMMAND_ACCEPT = 31,
    WEFT_COMMAND_CONNECT = 32,
    WEFT_COMMAND_READ = 50,
    WEFT_COMMAND_WRITE = 51,
    WEFT_COMMAND_BLOCKING = 140,
    WEFT_COMMAND_FUNCTION = 141,
    WEFT_COMMAND_USER = 256, /* first number for the program's own commands */
};

/* Complete at the deadline; as soon as possible if it has passed.
 *
 * Returns 0; -ENOMEM.
 * Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_at(weft_out *out, uint64_t tag, int64_t deadline);

/* Send a message from this actor after the step. The command completes when the message is admitted
 * to the receiver's mailbox, with `from` set to the receiver, or with an error of weft_actor_send.
 *
 * If the receiver's mailbox is full, the message waits for capacity until the deadline, in order of
 * arrival, while this actor continues to run; with WEFT_BY_POLICY it waits, without limit, only if
 * the receiver's policy is WEFT_MAILBOX_WAIT. -ETIMEDOUT: the deadline came first, and the message
 * is freed; -ESRCH: the receiver ended first. A message to another node never waits. Later messages
 * from this actor to the same receiver wait too, or are refused, so that messages arrive in order.
 * If this actor ends first, the message becomes a dead letter. Two actors that wait for each
 * other's capacity with weft_out_wait, and so take no messages, wait for ever unless they send with
 * a deadline.
 *
 * An actor whose message had to wait gets a send credit: in the step that receives the completion
 * it may send up to 256 more messages to that receiver ahead of other waiting senders, as long as
 * the mailbox has capacity. So a step with much to send uses weft_actor_send, and sends what that
 * refuses (-ENOBUFS) with weft_out_send.
 * topic, buf: as in weft_actor_send; buf is taken, also on an error.
 * Returns 0; -ENOMEM.
 * Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_send(weft_out *out, uint64_t tag, weft_pid to, const char *topic,
                           uint64_t message_tag, weft_buf *buf, int64_t deadline);

/* Call an actor from a step, as a command. The completion has this tag and carries the reply, or an
 * error: -ETIMEDOUT at the deadline; -ESRCH, -EOWNERDEAD, -ENOBUFS as for weft_actor_call;
 * -EREMOTE; -ENOMEM; or the error given to weft_actor_reply. It does not wait for mailbox capacity.
 *
 * topic: as in weft_actor_send. request: taken, also on an error.
 * Returns 0; -ENOMEM.
 * Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_call(weft_out *out, uint64_t tag, weft_pid to, const char *topic,
                           weft_buf *request, int64_t deadline);

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
 * -EREMOTE: it is on another node. (weft_actor_monitor of <weft/supervisor.h> reports by an event
 * of its own, and can be undone.)
 *
 * Returns 0; -ENOMEM.
 * Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_monitor(weft_out *out, uint64_t tag, weft_pid other);

/* Run the function on a thread of a blocking pool, where it may block. The command completes with
 * the function's error or its output, or with an error of weft_blocking_run.
 *
 * pool: NULL for the process-wide blocking pool; otherwise borrowed. input: taken, also on an
 * error; NULL is allowed.
 * Returns 0; -ENOMEM.
 * Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_blocking(weft_out *out, uint64_t tag, weft_blocking_pool *pool,
                               weft_function fn, void *arg, weft_buf *input);

/* Call the function from a step, as a command. The completion has this tag and carries the output
 * or an error of weft_funcpool_call.
 *
 * input: taken, also on an error. pool: must not be destroyed before the completion.
 * Returns 0; -ENOMEM.
 * Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_function(weft_out *out, uint64_t tag, weft_funcpool *pool, weft_buf *input,
                               int64_t deadline);

/* --- input and output ----------------------------------------------------------------------- */

/* The calls of <weft/io.h>, <weft/net.h> and <weft/file.h> as commands, with the same results. The
 * host must handle them: weft_host_handle_io (<weft/actor_io.h>). Each command runs on a fiber of
 * the host's pool, which is cancelled when the actor ends. Errors are those of the underlying
 * call. */

/* Wait until the descriptor is ready, as weft_fd_wait. Completes with a buffer that holds an int:
 * the events.
 *
 * events: WEFT_READABLE or WEFT_WRITABLE.
 * Returns 0; -ENOMEM. Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_ready(weft_out *out, uint64_t tag, int fd, int events, int64_t deadline);

/* Read up to `bytes` bytes. Completes with a buffer; an empty buffer is the end of the file or
 * stream.
 *
 * offset: position in the file, or -1 for the current position.
 * Returns 0; -ENOMEM. Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_read(weft_out *out, uint64_t tag, int fd, size_t bytes, int64_t offset,
                           int64_t deadline);
/* Write all of `buf`. Completes with 0 or an error; after an error part of buf may have been
 * written.
 *
 * buf: taken, also on an error. offset: as in weft_out_read.
 * Returns 0; -ENOMEM. Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_write(weft_out *out, uint64_t tag, int fd, weft_buf *buf, int64_t offset,
                            int64_t deadline);

/* Accept the next connection of a listening socket (weft_accept), or connect to an address
 * (weft_dial; the address is copied). Both complete with a descriptor: get it with
 * weft_actor_take_fd.
 *
 * Returns 0; -ENOMEM. Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_accept(weft_out *out, uint64_t tag, int fd, int64_t deadline);
WEFT_API int weft_out_connect(weft_out *out, uint64_t tag, const char *address, int64_t deadline);

WEFT_END_DECLS
#endif
