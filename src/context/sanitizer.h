/* What the checking tools must be told about stacks and switches.
 *
 * AddressSanitizer and LeakSanitizer belong to the program, not to this library: a plain libweft
 * finds their functions by name if the program has them, so an installed library works with them
 * unchanged. Fibers are then WATCHED (task/task.h) and switch out of line (sched/switch.c);
 * without a sanitizer a switch pays nothing.
 *
 * ThreadSanitizer must see every access, so the library has to be compiled for it (libweft-tsan); a
 * plain one refuses to run under it (context/sanitizer.c). For Valgrind there is one check per new
 * fiber.
 *
 * Order around a switch: weft__asan_leave and weft__san_leave on the old stack, the switch,
 * weft__asan_arrive on the new one. Between them no instrumented function may be entered or left,
 * so these are always inlined.
 */
#ifndef WEFT_CONTEXT_SANITIZER_H
#define WEFT_CONTEXT_SANITIZER_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define WEFT__ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT__ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define WEFT__TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT__TSAN 1
#endif
#endif
#ifndef WEFT__ASAN
#define WEFT__ASAN 0
#endif
#ifndef WEFT__TSAN
#define WEFT__TSAN 0
#endif

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define WEFT__VALGRIND 1
#else
#define WEFT__VALGRIND 0
#endif

#if WEFT__TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* One per stack, and one per worker for its base context. */
struct weft__san {
#if WEFT__TSAN
    void *fiber;
#endif
    char unused; /* C has no empty struct */
};

/* --- AddressSanitizer and LeakSanitizer, if the program has them ------------------------------ */

#define WEFT__WEAK_IMPORT(name) __asm__(name) __attribute__((weak))
void weft__asan_start_switch(void **fake, const void *bottom, size_t size)
    WEFT__WEAK_IMPORT("__sanitizer_start_switch_fiber");
void weft__asan_finish_switch(void *fake, const void **bottom, size_t *size)
    WEFT__WEAK_IMPORT("__sanitizer_finish_switch_fiber");
void weft__asan_unpoison(const void *bottom, size_t size)
    WEFT__WEAK_IMPORT("__asan_unpoison_memory_region");
void weft__lsan_add_root(const void *bottom, size_t size)
    WEFT__WEAK_IMPORT("__lsan_register_root_region");
void weft__lsan_remove_root(const void *bottom, size_t size)
    WEFT__WEAK_IMPORT("__lsan_unregister_root_region");

/* One per worker, for its thread. */
struct weft__asan {
    const void *bottom; /* stack of the base context; NULL: not known yet */
    size_t size;
    const void *left; /* the stack that the last switch left */
    size_t left_size;
    void *fake; /* the fake stack of the context that is being left */
};

/* Must a sanitizer be notified of switches? The answer never changes. */
static inline bool weft__asan_is_present(void)
{
    return weft__asan_start_switch || weft__lsan_add_root;
}

/* A fiber gets this stack: unpoisons what its last user left poisoned, and makes its content a root
 * for leak detection. Each `attach` has its `detach`, before the fiber ends. */
static inline void weft__asan_attach(const void *bottom, size_t size)
{
    if (weft__asan_unpoison) {
        weft__asan_unpoison(bottom, size);
    }
    if (weft__lsan_add_root) {
        weft__lsan_add_root(bottom, size);
    }
}

static inline void weft__asan_detach(const void *bottom, size_t size)
{
    if (weft__lsan_remove_root) {
        weft__lsan_remove_root(bottom, size);
    }
}

/* Before a switch to the stack at `bottom`, or to the base context if that is NULL. `ends`: this
 * context is never resumed. Returns the value for its `arrive`. */
static inline __attribute__((always_inline)) void *
weft__asan_leave(struct weft__asan *here, const void *bottom, size_t size, bool ends)
{
    if (!weft__asan_start_switch) {
        return NULL;
    }
    weft__asan_start_switch(ends ? NULL : &here->fake, bottom ? bottom : here->bottom,
                            bottom ? size : here->size);
    return ends ? NULL : here->fake;
}

/* `fake` is NULL in a context that has just begun. The first switch of a thread leaves its base
 * context, and tells where that stack is. */
static inline __attribute__((always_inline)) void weft__asan_arrive(struct weft__asan *here,
                                                                    void *fake)
{
    if (!weft__asan_finish_switch) {
        return;
    }
    weft__asan_finish_switch(fake, &here->left, &here->left_size);
    if (!here->bottom) {
        here->bottom = here->left;
        here->size = here->left_size;
        if (weft__lsan_add_root) { /* LSan scans the stack that a thread is on, and no other */
            weft__lsan_add_root(here->bottom, here->size);
        }
    }
}

/* The thread becomes a worker, or ceases to be one. */
static inline void weft__asan_enter_thread(struct weft__asan *here)
{
    here->bottom = NULL;
}

static inline void weft__asan_leave_thread(struct weft__asan *here)
{
    if (here->bottom) {
        weft__asan_detach(here->bottom, here->size);
        here->bottom = NULL;
    }
}

/* --- Valgrind and ThreadSanitizer ---------------------------------------------------------- */

/* Set once, before the first stack is used. */
extern bool weft__san_valgrind;

static inline void weft__san_probe(void)
{
#if WEFT__VALGRIND
    if (RUNNING_ON_VALGRIND) { /* other threads may read it: else never written */
        weft__san_valgrind = true;
    }
#endif
}

/* Between the two calls this thread may intentionally pass memory to the kernel that has been
 * freed. */
static inline void weft__san_suppress(void)
{
#if WEFT__VALGRIND
    VALGRIND_DISABLE_ERROR_REPORTING;
#endif
}

static inline void weft__san_unsuppress(void)
{
#if WEFT__VALGRIND
    VALGRIND_ENABLE_ERROR_REPORTING;
#endif
}

/* Memory becomes a stack. */
static inline void weft__san_register_stack(char *bottom, char *top)
{
#if WEFT__VALGRIND
    (void)VALGRIND_STACK_REGISTER(bottom, top - 1);
#endif
    (void)bottom, (void)top;
}

/* A new fiber gets this stack. */
static inline void weft__san_create(struct weft__san *san, const void *bottom, size_t size)
{
#if WEFT__VALGRIND
    if (__builtin_expect(weft__san_valgrind, 0)) {
        /* Memcheck follows the stack pointer and has marked what lay below the last fiber's as
         * inaccessible. Defined, not undefined: the fiber that ends may still be running on it. */
        (void)VALGRIND_MAKE_MEM_DEFINED(bottom, size);
    }
#endif
#if WEFT__TSAN
    san->fiber = __tsan_create_fiber(0);
#endif
    (void)san, (void)bottom, (void)size;
}

/* The fiber on this stack ends: detaches its record, which is destroyed after the switch. */
static inline void *weft__san_detach(struct weft__san *san)
{
#if WEFT__TSAN
    return san->fiber;
#else
    (void)san;
    return NULL;
#endif
}

static inline __attribute__((always_inline)) void weft__san_destroy(void **record)
{
#if WEFT__TSAN
    if (*record) {
        __tsan_destroy_fiber(*record);
        *record = NULL;
    }
#endif
    (void)record;
}

/* The calling thread's own stack becomes a base context. */
static inline void weft__san_thread(struct weft__san *san)
{
#if WEFT__TSAN
    san->fiber = __tsan_get_current_fiber();
#endif
    (void)san;
}

static inline __attribute__((always_inline)) void weft__san_leave(const struct weft__san *to)
{
#if WEFT__TSAN
    __tsan_switch_to_fiber(to->fiber, 0);
#endif
    (void)to;
}

#endif
