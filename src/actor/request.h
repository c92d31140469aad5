/* What a built-in command is asked with: a struct that begins with this, inside the command's
 * buffer. Whoever frees the buffer, handled or not, drops what the struct still owns. */
#ifndef WEFT_ACTOR_REQUEST_H
#define WEFT_ACTOR_REQUEST_H

#include <weft/actor.h>

struct weft__request {
    void (*drop)(struct weft__request *request); /* NULL: it owns nothing */
};

/* Copies it. NULL: no memory, and it was dropped. */
weft_buf *weft__request_new(const struct weft__request *request, size_t bytes);

static inline void *weft__request_of(const struct weft_command *command)
{
    return command->arg->data;
}

/* Asks for it, from a step. 0, -ENOMEM. */
int weft__request_ask(weft_out *out, unsigned id, uint64_t tag, const struct weft__request *request,
                      size_t bytes);

/* --- errands --------------------------------------------------------------------------- */

/* A fiber that does a command's work, and completes it: for what waits. When the actor ends first,
 * it is cancelled. 0 or what there is to complete it by, and *result. The request is borrowed. */
typedef int (*weft__errand_fn)(struct weft__request *request, weft_buf **result);

/* For a handler: takes the command's buffer, also on an error. */
int weft__errand_start(const struct weft_command *command, weft__errand_fn fn);

/* As weft_host_handle, for Weft's own numbers. */
int weft__host_handle(weft_host *host, unsigned id, weft_command_fn fn, void *arg);
/* Registers what the actor layer handles itself. */
int weft__host_handle_builtin(weft_host *host);

#endif
