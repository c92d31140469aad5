/* The C++ exceptions of a fiber.
 *
 * The C++ runtime keeps, for each thread, the exceptions that are caught and not yet released, and
 * the number of those in flight (__cxa_get_globals of the Itanium C++ ABI, which libstdc++ and
 * libc++ share). A fiber that switches inside a catch block or in a destructor takes both along:
 * they are saved in its frame, the thread has none while other fibers run, and they are restored
 * where the fiber resumes. A worker keeps the address of its thread's two words, as it keeps
 * errno's.
 *
 * The runtime is found by name when the program starts; one that is loaded later by dlopen is not
 * seen. A C program has none, and its switches pay nothing.
 */
#ifndef WEFT_CONTEXT_EXCEPTIONS_H
#define WEFT_CONTEXT_EXCEPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* Layout of the ABI. */
struct weft__exceptions {
    void *caught;
    unsigned uncaught;
};

struct weft__exceptions *weft__exceptions_of_thread(void) __asm__("__cxa_get_globals")
    __attribute__((weak));
void weft__exceptions_end_catch(void) __asm__("__cxa_end_catch") __attribute__((weak));

/* Is there a C++ runtime? The answer never changes. */
static inline bool weft__exceptions_are_supported(void)
{
    return weft__exceptions_of_thread;
}

/* The calling thread's; NULL: no C++ runtime. Not in a function that switches. */
static inline struct weft__exceptions *weft__exceptions_at(void)
{
    return weft__exceptions_of_thread ? weft__exceptions_of_thread() : NULL;
}

static inline __attribute__((always_inline)) struct weft__exceptions
weft__exceptions_save(struct weft__exceptions *thread)
{
    struct weft__exceptions mine = {0};
    if (thread) {
        mine = *thread;
        thread->caught = NULL;
        thread->uncaught = 0;
    }
    return mine;
}

static inline __attribute__((always_inline)) void
weft__exceptions_restore(struct weft__exceptions *thread, struct weft__exceptions mine)
{
    if (thread) {
        *thread = mine;
    }
}

#endif
