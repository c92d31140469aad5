/* The argument of a built-in command: a struct that begins with struct weft__command_request,
 * inside the command's buffer. Freeing the buffer, whether the command was handled or not, drops
 * what the struct still owns. */
#ifndef WEFT_COMMAND_COMMAND_REQUEST_H
#define WEFT_COMMAND_COMMAND_REQUEST_H

#include <weft/actor.h>

struct weft__command_request {
    void (*drop)(struct weft__command_request *request); /* NULL: it owns nothing */
};

/* Copy the request into a buffer. Returns NULL if there is no memory; then the request was
 * dropped. */
weft_buf *weft__command_request_new(const struct weft__command_request *request, size_t bytes);

static inline void *weft__command_request_of(const struct weft_command *command)
{
    return command->arg->data;
}

/* Issue the command from a step. Returns 0 or -ENOMEM. */
int weft__command_request_issue(weft_out *out, unsigned id, uint64_t tag,
                                const struct weft__command_request *request, size_t bytes);

/* --- commands that run on a fiber ------------------------------------------------------ */

/* The function of a command that waits, run on a fiber of its own, which completes the command. The
 * fiber is cancelled if the actor ends first. Returns 0 and *result, or the error of the
 * completion. Borrows the request. */
typedef int (*weft__command_fiber_fn)(struct weft__command_request *request, weft_buf **result);

/* Called by a handler. Takes the command's buffer, also on an error. */
int weft__command_fiber_start(const struct weft_command *command, weft__command_fiber_fn fn);

/* As weft_host_handle, for the numbers reserved for Weft. */
int weft__host_handle(weft_host *host, unsigned id, weft_command_fn fn, void *arg);
/* Register the commands that the actor layer handles itself. */
int weft__host_handle_builtin(weft_host *host);

#endif
