#include "command/command_request.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "mailbox/pending.h"

static void release(const void *memory, size_t len, void *arg)
{
    struct weft__command_request *request = arg;
    (void)memory;
    if (request->drop) {
        request->drop(request);
    }
    weft__small_put(weft__small_self(), weft__small_class(len), request);
}

weft_buf *weft__command_request_new(const struct weft__command_request *request, size_t bytes)
{
    struct weft__command_request *copy =
        weft__small_get(weft__small_self(), weft__small_class(bytes), bytes);
    if (copy) {
        memcpy(copy, request, bytes);
    }
    weft_buf *buf = copy ? weft_buf_wrap(copy, bytes, release, copy) : NULL;
    if (!buf) {
        if (copy) {
            weft__small_put(weft__small_self(), weft__small_class(bytes), copy);
        }
        if (request->drop) {
            request->drop((struct weft__command_request *)(uintptr_t)request);
        }
    }
    return buf;
}

int weft__command_request_issue(weft_out *out, unsigned id, uint64_t tag,
                                const struct weft__command_request *request, size_t bytes)
{
    weft_buf *buf = weft__command_request_new(request, bytes);
    return buf ? weft_out_command(out, id, tag, buf) : -ENOMEM;
}

/* --- commands that run on a fiber ------------------------------------------------------ */

struct command_fiber {
    struct weft_command command;
    weft__command_fiber_fn fn;
};

static void complete(const struct command_fiber *command_fiber, int err, weft_buf *result)
{
    /* Without memory for the completion, retry later. The sleep is cancelled when the actor
     * ends. */
    while (weft_command_complete(command_fiber->command.actor, command_fiber->command.tag, err,
                                 result) == -ENOMEM &&
           weft_sleep(weft_after(1000000)) == 0) {
        err = err ? err : -ENOMEM; /* the result was freed */
        result = NULL;
    }
}

static void *run(void *arg)
{
    struct command_fiber *command_fiber = arg;
    struct weft__pending_entry entry = {
        .kind = WEFT__PENDING_FIBER, .to = command_fiber->command.actor, .fiber = weft_self()};
    weft_buf *result = NULL;
    uint64_t ref = 0;
    int err = weft__pending_add(&entry, WEFT_FOREVER, 0, &ref);
    if (err != -ESRCH) {
        err = err ? err
                  : command_fiber->fn(weft__command_request_of(&command_fiber->command), &result);
        complete(command_fiber, err, result);
        weft__pending_drop(ref, 1u << WEFT__PENDING_FIBER);
    }
    weft_buf_free(command_fiber->command.arg);
    weft__free(command_fiber);
    return NULL;
}

int weft__command_fiber_start(const struct weft_command *command, weft__command_fiber_fn fn)
{
    struct command_fiber *command_fiber = weft__alloc(sizeof *command_fiber);
    int err = -ENOMEM;
    if (command_fiber) {
        *command_fiber = (struct command_fiber){.command = *command, .fn = fn};
        err = weft_pool_submit(command->host->pool, run, command_fiber);
    }
    if (err) {
        weft__free(command_fiber);
        weft_buf_free(command->arg);
    }
    return err;
}
