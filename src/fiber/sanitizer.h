/* What the checking tools must be told of stacks and switches. Empty in a plain build, except for
 * one predicted branch per new fiber that asks whether Valgrind is watching.
 *
 * Order around a switch: weft__san_leave on the old stack, the switch, weft__san_arrive on the new
 * one. Between the two no instrumented function may be entered or left, so these are always
 * inlined.
 */
#ifndef WEFT_FIBER_SANITIZER_H
#define WEFT_FIBER_SANITIZER_H

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

#if WEFT__ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if WEFT__TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* One per stack, and one per worker for its base context. */
struct weft__san {
#if WEFT__ASAN
    void *fake;         /* ASan's fake stack of a suspended context */
    const void *bottom; /* its real stack; learned on first arrival for base contexts */
    size_t size;
#endif
#if WEFT__TSAN
    void *fiber;
#endif
    char unused; /* C has no empty struct */
};

/* Set once, before the first stack is used. */
extern bool weft__san_valgrind;

static inline void weft__san_probe(void)
{
#if WEFT__VALGRIND
    weft__san_valgrind = RUNNING_ON_VALGRIND;
#endif
}

/* Between the two this thread may name memory to the kernel that is no longer anybody's, and means
 * it. */
static inline void weft__san_hush(void)
{
#if WEFT__VALGRIND
    VALGRIND_DISABLE_ERROR_REPORTING;
#endif
}

static inline void weft__san_unhush(void)
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
        /* Memcheck follows the stack pointer and has closed what lay below the last fiber's.
         * Defined, not undefined: the fiber that ends may still be running on it. */
        (void)VALGRIND_MAKE_MEM_DEFINED(bottom, size);
    }
#endif
#if WEFT__ASAN
    san->fake = NULL;
    san->bottom = bottom;
    san->size = size;
    __asan_unpoison_memory_region(bottom, size); /* what the last user left poisoned */
#endif
#if WEFT__TSAN
    san->fiber = __tsan_create_fiber(0);
#endif
    (void)san, (void)bottom, (void)size;
}

/* The fiber on this stack ends: its record is taken off, to be buried after the switch. */
static inline void *weft__san_take(struct weft__san *san)
{
#if WEFT__TSAN
    return san->fiber;
#else
    (void)san;
    return NULL;
#endif
}

static inline __attribute__((always_inline)) void weft__san_bury(void **dead)
{
#if WEFT__TSAN
    if (*dead) {
        __tsan_destroy_fiber(*dead);
        *dead = NULL;
    }
#endif
    (void)dead;
}

/* The calling thread's own stack becomes a base context. */
static inline void weft__san_thread(struct weft__san *san)
{
#if WEFT__ASAN
    san->fake = NULL;
    san->bottom = NULL; /* arrive learns it from ASan */
    san->size = 0;
#endif
#if WEFT__TSAN
    san->fiber = __tsan_get_current_fiber();
#endif
    (void)san;
}

static inline __attribute__((always_inline)) void
weft__san_leave(struct weft__san *from, const struct weft__san *to, bool ends)
{
#if WEFT__ASAN
    __sanitizer_start_switch_fiber(ends ? NULL : &from->fake, to->bottom, to->size);
#endif
#if WEFT__TSAN
    __tsan_switch_to_fiber(to->fiber, 0);
#endif
    (void)from, (void)to, (void)ends;
}

/* `left`, if it is not NULL, is the context that was left; its bounds are noted. */
static inline __attribute__((always_inline)) void weft__san_arrive(struct weft__san *self,
                                                                   struct weft__san *left)
{
#if WEFT__ASAN
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(self->fake, &bottom, &size);
    if (left && !left->bottom) {
        left->bottom = bottom;
        left->size = size;
    }
#endif
    (void)self, (void)left;
}

#endif
