/* Lifecycle hooks of a host, called for every actor's start and end. Written before the host's
 * first actor, read without a lock after that. */
#include <errno.h>
#include <string.h>

#include "actor/actor.h"
#include "base/alloc.h"
#include "base/nonnull.h"

static int add_locked(weft_host *host, const struct weft_host_hook *hook)
{
    size_t count = host->hook_count;
    if (atomic_load_explicit(&host->frozen, memory_order_relaxed)) {
        return -EBUSY;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(host->hooks[i].name, hook->name) == 0) {
            return -EEXIST;
        }
    }
    struct weft_host_hook *more = weft__alloc((count + 1) * sizeof *more);
    if (!more) {
        return -ENOMEM;
    }
    if (count) {
        memcpy(more, host->hooks, count * sizeof *more);
    }
    more[count] = *hook;
    weft__free(host->hooks);
    host->hooks = more;
    host->hook_count = count + 1;
    return 0;
}

int weft_host_add_hook(weft_host *host, const struct weft_host_hook *hook)
{
    WEFT__NONNULL(host);
    if (!hook->name || (!hook->on_start && !hook->on_end)) {
        return -EINVAL;
    }
    weft__lock(&host->lock);
    int err = add_locked(host, hook);
    weft__unlock(&host->lock);
    return err;
}

void weft__hooks_free(weft_host *host)
{
    weft__free(host->hooks);
    host->hooks = NULL;
    host->hook_count = 0;
}

size_t weft__hooks_start(weft_actor *actor, int *err)
{
    weft_host *host = actor->host;
    size_t agreed = 0;
    *err = 0;
    for (; agreed < host->hook_count; agreed++) {
        const struct weft_host_hook *hook = &host->hooks[agreed];
        *err = hook->on_start ? hook->on_start(host, weft_actor_pid(actor), actor->kind, hook->arg)
                              : 0;
        if (*err) {
            break;
        }
    }
    return agreed;
}

void weft__hooks_end(weft_actor *actor, size_t agreed, int reason)
{
    weft_host *host = actor->host;
    while (agreed-- > 0) {
        const struct weft_host_hook *hook = &host->hooks[agreed];
        if (hook->on_end) {
            hook->on_end(host, weft_actor_pid(actor), actor->kind, reason, hook->arg);
        }
    }
}
