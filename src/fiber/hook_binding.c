#include "fiber/hook_binding.h"

#include <dlfcn.h>
#include <unistd.h>

#include <weft/hook.h>

#include "sched/pool.h"
#include "task/ident.h"
#include "worker/worker.h"

static _Atomic(bool) loaded;
static _Atomic(int64_t) connect_ns;
static _Thread_local bool hooks_off __attribute__((tls_model("initial-exec")));

/* Like weft__worker_self: never kept across a switch. */
static __attribute__((noinline)) bool *hooks_off_address(void)
{
    bool *at = &hooks_off;
    __asm__ volatile("" : "+r"(at)::"memory");
    return at;
}

/* --- the hook library ------------------------------------------------------------------------- */

void weft__hook_attach(void)
{
    atomic_store_explicit(&loaded, true, memory_order_relaxed);
}

bool weft_hook_is_loaded(void)
{
    return atomic_load_explicit(&loaded, memory_order_relaxed);
}

int64_t weft_hook_connect_timeout(int64_t ns)
{
    return ns < 0 ? atomic_load_explicit(&connect_ns, memory_order_relaxed)
                  : atomic_exchange_explicit(&connect_ns, ns, memory_order_relaxed);
}

/* A statically linked program has no dlsym. */
extern __typeof__(dlsym) dlsym __attribute__((weak));

void weft__hooked_check_library(void)
{
    static _Atomic(bool) looked;
    if (!dlsym || atomic_exchange_explicit(&looked, true, memory_order_relaxed)) {
        return;
    }
    void *(*runtime)(void);
    *(void **)(void *)&runtime = dlsym(RTLD_DEFAULT, "weft_hook_runtime");
    if (runtime && !weft_hook_is_loaded()) {
        static const char text[] =
            "weft: libweft-hook.so is loaded, but this program is linked with a static libweft: "
            "no call is hooked. Link it with the shared libweft.\n";
        if (write(STDERR_FILENO, text, sizeof text - 1) < 0) {
            return;
        }
    }
}

/* --- does a call apply? ----------------------------------------------------------------------- */

/* A signal handler that runs on a stack of its own, or that arrived in the middle of a switch, is
 * not the fiber. */
static bool is_on_own_stack(const struct weft__task *task)
{
    const char *here = __builtin_frame_address(0);
    return weft__task_state(task) == WEFT__TASK_RUNNING && here < task->stack->top &&
           here >= task->stack->top - weft__stack_bytes(task->stack_class);
}

static struct weft__task *hooked_task(const struct weft__worker *w)
{
    struct weft__task *task = w ? weft__current(w) : NULL;
    return task && !(task->flags & WEFT__TASK_HOOKS_OFF) && !*hooks_off_address() &&
                   is_on_own_stack(task)
               ? task
               : NULL;
}

/* Gives up if the lock is not available soon: a signal handler may have interrupted the lock's
 * holder on this very thread. */
static __attribute__((noinline)) void bind_here(struct weft__worker *w, struct weft__task *task)
{
    uint64_t ident;
    if (weft__ident_lock_bounded(task, weft__task_handle(task) >> 32, &ident) == 1) {
        task->pin = w->index;
        weft__ident_unlock(task, ident);
        atomic_fetch_add_explicit(&w->bound, 1, memory_order_relaxed);
    }
}

bool weft__hook_enter(void)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *task = hooked_task(w);
    if (task && __builtin_expect(task->pin < 0, 0)) {
        bind_here(w, task);
    }
    return task && task->pin >= 0;
}

bool weft__hook_can_wait(void)
{
    const struct weft__worker *w = weft__worker_self();
    return !w || weft__current(w);
}

bool weft_hook_is_active(void)
{
    return weft_hook_is_loaded() && hooked_task(weft__worker_self()) != NULL;
}

bool weft_hook_enable(bool on)
{
    const struct weft__worker *w = weft__worker_self();
    struct weft__task *task = w ? weft__current(w) : NULL;
    if (!task) {
        return false;
    }
    bool before = !(task->flags & WEFT__TASK_HOOKS_OFF);
    task->flags =
        (uint8_t)((task->flags & ~WEFT__TASK_HOOKS_OFF) | (on ? 0 : WEFT__TASK_HOOKS_OFF));
    return before;
}

bool weft_hook_enable_thread(bool on)
{
    bool *off = hooks_off_address();
    bool before = !*off;
    *off = !on;
    return before;
}

/* --- where a fiber is bound ------------------------------------------------------------------- */

/* An absent caller may never come back. */
static bool is_present(const weft_pool *pool, unsigned worker)
{
    return worker > 0 || !pool->caller || pool->worker_count == 1 ||
           atomic_load_explicit(&pool->workers[0].state, memory_order_relaxed) !=
               WEFT_WORKER_ABSENT;
}

int weft__hooked_choose_worker(weft_pool *pool)
{
    static _Atomic(uint32_t) turn;
    unsigned n = pool->worker_count, best = 0;
    uint64_t fewest = UINT64_MAX;
    uint32_t first = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed);
    for (unsigned i = 0; i < n && fewest > 0; i++) {
        unsigned worker = (first + i) % n;
        uint64_t bound = atomic_load_explicit(&pool->workers[worker].bound, memory_order_relaxed);
        if (bound < fewest && is_present(pool, worker)) {
            fewest = bound;
            best = worker;
        }
    }
    return (int)best;
}
