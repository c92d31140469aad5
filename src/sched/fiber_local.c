#include "sched/fiber_local.h"

#include <errno.h>

#include <weft/scope.h>

#include "base/assert.h"
#include "task/fork.h"

#define KEYS 16u

static _Atomic(unsigned) keys;
static void (*destructors[KEYS])(void *); /* written before its key is returned */

/* Returns NULL outside a fiber. */
static struct weft__rare *rare_self(const char *call)
{
    struct weft__worker *w = weft__worker_self();
    if (!w || !weft__current(w)) {
        weft__fork_check_fiber(call);
        return NULL;
    }
    return weft__task_rare(weft__current(w));
}

int weft_fiber_key_create(weft_fiber_key *out, void (*destructor)(void *value))
{
    unsigned key = atomic_load_explicit(&keys, memory_order_relaxed);
    do {
        if (key == KEYS) {
            return -EAGAIN;
        }
    } while (!atomic_compare_exchange_weak_explicit(&keys, &key, key + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    destructors[key] = destructor;
    *out = key;
    return 0;
}

int weft_fiber_set_local(weft_fiber_key key, void *value)
{
    struct weft__rare *rare = rare_self("weft_fiber_set_local");
    WEFT__REQUIRE(key < atomic_load_explicit(&keys, memory_order_relaxed), "%u is not a key", key);
    if (!rare) {
        return -ENXIO;
    }
    rare->locals[key] = value;
    rare->locals_used |= 1u << key;
    return 0;
}

void *weft_fiber_get_local(weft_fiber_key key)
{
    struct weft__rare *rare = rare_self("weft_fiber_get_local");
    WEFT__REQUIRE(key < atomic_load_explicit(&keys, memory_order_relaxed), "%u is not a key", key);
    return rare && (rare->locals_used & 1u << key) ? rare->locals[key] : NULL;
}

void weft_fiber_cleanup_push(struct weft_fiber_cleanup *node, void (*fn)(void *arg), void *arg)
{
    struct weft__rare *rare = rare_self("weft_fiber_cleanup_push");
    WEFT__REQUIRE(rare, "weft_fiber_cleanup_push was called outside of a fiber");
    node->fn = fn;
    node->arg = arg;
    node->below = rare->cleanups;
    rare->cleanups = node;
}

void weft_fiber_cleanup_pop(struct weft_fiber_cleanup *node, bool run)
{
    struct weft__rare *rare = rare_self("weft_fiber_cleanup_pop");
    WEFT__REQUIRE(rare && rare->cleanups == node,
                  "weft_fiber_cleanup_pop: not the top of the fiber's cleanups");
    rare->cleanups = node->below;
    if (run) {
        node->fn(node->arg);
    }
}

/* The node is in a frame that has returned: its contents may be overwritten by now, so only its
 * address is used. */
static void __attribute__((cold, noreturn))
panic_stale_cleanup(const struct weft__task *task, const struct weft_fiber_cleanup *node)
{
    const struct weft__rare *rare = weft__task_rare(task);
    const char *name = weft__task_name(task), *scope = (const char *)rare->scope;
    uint64_t fiber = weft__task_handle(task);
    if (scope && (const char *)node >= scope && (const char *)node < scope + sizeof(weft_scope)) {
        weft__panic(
            __FILE__, __LINE__,
            "fiber #%u.%u%s%s returned with scope %s open: call weft_scope_close before the "
            "function that opened it returns",
            (unsigned)fiber, (unsigned)(fiber >> 32), name[0] ? " " : "", name,
            rare->scope_name ? rare->scope_name : "without a name");
    }
    weft__panic(
        __FILE__, __LINE__,
        "fiber #%u.%u%s%s returned from the frame of a cleanup that it had not popped: call "
        "weft_fiber_cleanup_pop there",
        (unsigned)fiber, (unsigned)(fiber >> 32), name[0] ? " " : "", name);
}

void weft__local_check_nodes(const struct weft__task *task, const void *frame)
{
    const char *bottom = weft__stack_bottom(task->stack, task->stack_class);
    const struct weft_fiber_cleanup *node = weft__task_rare(task)->cleanups;
    for (; node; node = node->below) {
        if ((const char *)node >= bottom && (const char *)node < (const char *)frame) {
            panic_stale_cleanup(task, node);
        }
    }
}

void weft__local_run_cleanups(struct weft__rare *rare)
{
    while (rare->cleanups || rare->locals_used) {
        if (rare->cleanups) {
            struct weft_fiber_cleanup *node = rare->cleanups;
            rare->cleanups = node->below;
            node->fn(node->arg);
            continue;
        }
        unsigned key = (unsigned)__builtin_ctz(rare->locals_used);
        rare->locals_used &= ~(1u << key);
        if (destructors[key] && rare->locals[key]) {
            destructors[key](rare->locals[key]);
        }
    }
}
