/* Commands: the registry of handlers, and the submission of the commands that a step has issued. */
#include <errno.h>
#include <string.h>

#include <weft/actor_out.h>

#include "actor/actor.h"
#include "base/alloc.h"
#include "base/nonnull.h"
#include "command/command_request.h"

#define MAX_ID 65535u

/* --- the registry ---------------------------------------------------------------------- */

/* The index of the handler, or where it would be inserted. */
static size_t index_of(const struct weft__handlers *handlers, unsigned id)
{
    size_t low = 0, high = handlers->sparse_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (handlers->sparse[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static const struct weft__handler *find(const struct weft__handlers *handlers, unsigned id)
{
    if (id < WEFT__COMMANDS_DENSE) {
        return handlers->dense[id].fn ? &handlers->dense[id] : NULL;
    }
    size_t at = index_of(handlers, id);
    return at < handlers->sparse_count && handlers->sparse[at].id == id ? &handlers->sparse[at]
                                                                        : NULL;
}

static int add_sparse(struct weft__handlers *handlers, const struct weft__handler *handler)
{
    size_t at = index_of(handlers, handler->id), count = handlers->sparse_count;
    struct weft__handler *more = weft__alloc((count + 1) * sizeof *more);
    if (!more) {
        return -ENOMEM;
    }
    if (count) {
        memcpy(more, handlers->sparse, at * sizeof *more);
        memcpy(more + at + 1, handlers->sparse + at, (count - at) * sizeof *more);
    }
    more[at] = *handler;
    weft__free(handlers->sparse);
    handlers->sparse = more;
    handlers->sparse_count = count + 1;
    return 0;
}

static int add_locked(weft_host *host, const struct weft__handler *handler)
{
    if (atomic_load_explicit(&host->frozen, memory_order_relaxed)) {
        return -EBUSY;
    }
    if (find(&host->handlers, handler->id)) {
        return -EEXIST;
    }
    if (handler->id >= WEFT__COMMANDS_DENSE) {
        return add_sparse(&host->handlers, handler);
    }
    host->handlers.dense[handler->id] = *handler;
    return 0;
}

int weft_host_handle(weft_host *host, unsigned id, weft_command_fn fn, void *arg)
{
    WEFT__NONNULL(host);
    if (id < WEFT_COMMAND_USER || id > MAX_ID || !fn) {
        return -EINVAL;
    }
    return weft__host_handle(host, id, fn, arg);
}

int weft__host_handle(weft_host *host, unsigned id, weft_command_fn fn, void *arg)
{
    weft__lock(&host->lock);
    int err = add_locked(host, &(struct weft__handler){.id = id, .fn = fn, .arg = arg});
    weft__unlock(&host->lock);
    return err;
}

void weft__handlers_free(struct weft__handlers *handlers)
{
    weft__free(handlers->sparse);
    *handlers = (struct weft__handlers){0};
}

/* --- the commands of a step --------------------------------------------------------------- */

static struct weft__issued_command *issued(weft_out *out)
{
    return out->heap_commands ? out->heap_commands : out->inline_commands;
}

static bool grow(weft_out *out)
{
    unsigned capacity = out->capacity ? 2 * out->capacity : 4 * WEFT__COMMANDS_INLINE;
    struct weft__issued_command *more = weft__alloc_dirty(capacity * sizeof *more);
    if (!more) {
        return false;
    }
    memcpy(more, issued(out), out->count * sizeof *more);
    weft__free(out->heap_commands);
    out->heap_commands = more;
    out->capacity = capacity;
    return true;
}

int weft_out_command(weft_out *out, unsigned id, uint64_t tag, weft_buf *arg)
{
    unsigned capacity = out->heap_commands ? out->capacity : WEFT__COMMANDS_INLINE;
    if (out->count == capacity && !grow(out)) {
        weft_buf_free(arg);
        return -ENOMEM;
    }
    issued(out)[out->count++] = (struct weft__issued_command){.id = id, .tag = tag, .arg = arg};
    return 0;
}

static int dispatch(weft_host *host, weft_pid self, const struct weft__issued_command *one)
{
    const struct weft__handler *handler = find(&host->handlers, one->id);
    struct weft_command command = {
        .id = one->id, .tag = one->tag, .actor = self, .host = host, .arg = one->arg};
    int err = handler ? handler->fn(&command, handler->arg) : -ENOSYS;
    if (!handler) {
        weft_buf_free(one->arg);
    }
    return err ? weft_command_complete(self, one->tag, err, NULL) : 0;
}

int weft__out_dispatch(weft_out *out, weft_actor *actor)
{
    weft_pid self = weft_actor_pid(actor);
    unsigned count = out->count;
    for (unsigned i = 0; i < count; i++) {
        int err = dispatch(actor->host, self, &issued(out)[i]);
        if (err) { /* the caller drops the remaining commands */
            out->count -= i + 1;
            memmove(issued(out), issued(out) + i + 1, out->count * sizeof *issued(out));
            return err;
        }
    }
    weft__free(out->heap_commands);
    out->heap_commands = NULL;
    out->count = 0;
    return (int)count;
}

void weft__out_drop(weft_out *out)
{
    for (unsigned i = 0; i < out->count; i++) {
        weft_buf_free(issued(out)[i].arg);
    }
    weft__free(out->heap_commands);
    weft_buf_free(out->result);
    weft__exit_reason_unref(out->exit_reason);
    weft__new_code_free(out->new);
}
