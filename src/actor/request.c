#include "actor/request.h"

#include <errno.h>
#include <string.h>

#include "actor/ledger.h"
#include "base/alloc.h"

static void release(const void *memory, size_t len, void *arg)
{
    struct weft__request *request = arg;
    (void)memory;
    if (request->drop) {
        request->drop(request);
    }
    weft__small_put(weft__small_here(), weft__small_class(len), request);
}

weft_buf *weft__request_new(const struct weft__request *request, size_t bytes)
{
    struct weft__request *copy =
        weft__small_get(weft__small_here(), weft__small_class(bytes), bytes);
    if (copy) {
        memcpy(copy, request, bytes);
    }
    weft_buf *buf = copy ? weft_buf_wrap(copy, bytes, release, copy) : NULL;
    if (!buf) {
        if (copy) {
            weft__small_put(weft__small_here(), weft__small_class(bytes), copy);
        }
        if (request->drop) {
            request->drop((struct weft__request *)(uintptr_t)request);
        }
    }
    return buf;
}

int weft__request_ask(weft_out *out, unsigned id, uint64_t tag, const struct weft__request *request,
                      size_t bytes)
{
    weft_buf *buf = weft__request_new(request, bytes);
    return buf ? weft_out_command(out, id, tag, buf) : -ENOMEM;
}

/* --- commands that run on a fiber ------------------------------------------------------ */

struct errand {
    struct weft_command command;
    weft__errand_fn fn;
};

static void complete(const struct errand *errand, int err, weft_buf *result)
{
    /* Without memory for the completion, retry later. The sleep is cancelled when the actor
     * ends. */
    while (weft_complete(errand->command.actor, errand->command.tag, err, result) == -ENOMEM &&
           weft_sleep(1000000) == 0) {
        err = err ? err : -ENOMEM; /* the result was freed */
        result = NULL;
    }
}

static void *run(void *arg)
{
    struct errand *errand = arg;
    struct weft__debt entry = {
        .kind = WEFT__DEBT_FIBER, .to = errand->command.actor, .fiber = weft_self()};
    weft_buf *result = NULL;
    uint64_t ref = 0;
    int err = weft__ledger_add(&entry, WEFT_FOREVER, 0, &ref);
    if (err != -ESRCH) {
        err = err ? err : errand->fn(weft__request_of(&errand->command), &result);
        complete(errand, err, result);
        weft__ledger_drop(ref, 1u << WEFT__DEBT_FIBER);
    }
    weft_buf_free(errand->command.arg);
    weft__free(errand);
    return NULL;
}

int weft__errand_start(const struct weft_command *command, weft__errand_fn fn)
{
    struct errand *errand = weft__alloc(sizeof *errand);
    int err = -ENOMEM;
    if (errand) {
        *errand = (struct errand){.command = *command, .fn = fn};
        err = weft_pool_submit(command->host->pool, run, errand);
    }
    if (err) {
        weft__free(errand);
        weft_buf_free(command->arg);
    }
    return err;
}
