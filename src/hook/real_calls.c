#include "hook/real_calls.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include <weft/blocking.h>
#include <weft/io.h>
#include <weft/sync.h>

#include "hook/wait_queue.h"

struct weft__real weft__real_table;
_Atomic(bool) weft__real_is_resolved;
_Atomic(bool) weft__hook_attached;
static _Atomic(int) own_pid; /* the process that this memory belongs to */

/* On x86_64 the condition functions also exist in an older, incompatible version of the same
 * name. */
static void *resolve_name(const char *name, bool condition)
{
#ifdef __x86_64__
    if (condition) {
        return dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    }
#endif
    (void)condition;
    return dlsym(RTLD_NEXT, name);
}

static bool is_condition(const char *name)
{
    static const char *const names[] = {"pthread_cond_wait", "pthread_cond_timedwait",
                                        "pthread_cond_signal", "pthread_cond_broadcast"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        const char *a = name, *b = names[i];
        while (*a && *a == *b) {
            a++, b++;
        }
        if (*a == *b) {
            return true;
        }
    }
    return false;
}

/* Two threads at the same time write the same values. */
void weft__real_resolve(void)
{
    int before = errno;
#define RESOLVE(name)                                                                              \
    __atomic_store_n((void **)(void *)&weft__real_table.name,                                      \
                     resolve_name(#name, is_condition(#name)), __ATOMIC_RELAXED);
    WEFT__REAL_CALLS(RESOLVE)
#undef RESOLVE
    atomic_store_explicit(&weft__real_is_resolved, true,
                          memory_order_release); /* pairs: weft__real */
    errno = before;
}

int weft__hook_fail(int err)
{
    errno = err == -EBADFD ? EBADF : -err;
    return -1;
}

static int process(void)
{
    return (int)syscall(SYS_getpid);
}

static void after_fork(void)
{
    atomic_store_explicit(&own_pid, process(), memory_order_relaxed);
    weft__hook_queue_fork_child();
}

bool weft__hook_is_own_process(void)
{
    return atomic_load_explicit(&own_pid, memory_order_relaxed) == process();
}

/* --- which libweft ---------------------------------------------------------------------------- */

/* For a libweft that finds this library: the libweft that the hooks work with. */
WEFT__HOOK void *weft_hook_runtime(void);
void *weft_hook_runtime(void)
{
    return (void *)(uintptr_t)weft__hook_enter;
}

static const void *object_of(const void *address)
{
    Dl_info info;
    return dladdr(address, &info) ? info.dli_fbase : NULL;
}

/* All functions of libweft that the hooks use are in one object, and that is libweft.so: only
 * libweft.so makes its system calls without the hooks. */
static bool has_one_runtime(void)
{
#define IS(name) (const void *)(uintptr_t)(name)
    const void *used[] = {IS(weft_fd_wait),       IS(weft_fd_release), IS(weft_close),
                          IS(weft_sleep),         IS(weft_event_wait), IS(weft_event_set),
                          IS(weft_blocking_call), IS(weft_self)};
    const void *object = object_of(IS(weft__hook_enter));
    const void *program = object_of((const void *)getauxval(AT_ENTRY));
    for (unsigned i = 0; i < sizeof used / sizeof *used; i++) {
        if (object_of(used[i]) != object) {
            return false;
        }
    }
    return object && object != program;
#undef IS
}

__attribute__((constructor)) static void load(void)
{
    weft__real();
    after_fork();
    if (pthread_atfork(NULL, NULL, after_fork) == 0 && has_one_runtime()) {
        weft__hook_attach();
        atomic_store_explicit(&weft__hook_attached, true, memory_order_relaxed);
    }
}
