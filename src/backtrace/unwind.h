/* Backtraces of fibers, waiting or running, without stopping anything for longer than a copy.
 *
 * A fiber is never unwound in place. Its registers and the used part of its stack are copied into a
 * stack sample: those of a waiting fiber while it is held (weft__task_hold), those of a running
 * fiber by its own thread in a signal handler (backtrace/sample.h). The unwinder reads the copy,
 * and besides it only the tables of loaded objects, so neither a torn stack nor a wild pointer can
 * do more than end the backtrace.
 */
#ifndef WEFT_BACKTRACE_UNWIND_H
#define WEFT_BACKTRACE_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "task/task.h"

struct weft__worker;

#define WEFT__STACK_SAMPLE_BYTES ((size_t)64 * 1024) /* the whole of a stack of the default size */

/* Registers by the numbers of the unwind tables. */
enum {
#if defined(__x86_64__)
    WEFT__REG_FP = 6,
    WEFT__REG_SP = 7,
    WEFT__REG_PC = 16,
#else
    WEFT__REG_FP = 29,
    WEFT__REG_SP = 31,
    WEFT__REG_PC = 32,
#endif
    WEFT__REGS,
};

struct weft__stack_sample {
    uint64_t regs[WEFT__REGS]; /* unknown registers are 0 */
    uint64_t first;            /* the address of stack[0] */
    size_t bytes;              /* bytes of `stack` in use */
    uint64_t stack[WEFT__STACK_SAMPLE_BYTES / sizeof(uint64_t)];
};

/* Is there an unwinder in this build? */
bool weft__unwind_works(void);
/* Allocate everything that unwinding needs, so that it allocates nothing later. False: no
 * memory. */
bool weft__unwind_prepare(void);

/* Copy the used part of a stack; regs are set already. Copies nothing if the stack pointer is not
 * in the stack. Async-signal-safe. */
void weft__stack_sample_copy(struct weft__stack_sample *stack_sample, const char *bottom,
                             const char *top);
/* Copy the registers and the stack of a held task. */
void weft__stack_sample_copy_held(struct weft__stack_sample *stack_sample,
                                  const struct weft__task *task);

#define WEFT__UNWIND_CACHE_ENTRIES 64
#define WEFT__UNWIND_CACHE_FRAMES 128

/* Cache of backtraces of waiting fibers. Zeroed: empty. Always used with the same limit of
 * frames. */
struct weft__unwind_cache {
    unsigned next; /* the entry to overwrite */
    struct weft__unwind_cache_entry {
        int count;
        uint64_t fp; /* the frame pointer, relative to the stack pointer */
        void *pcs[WEFT__UNWIND_CACHE_FRAMES];
        uint64_t
            at[WEFT__UNWIND_CACHE_FRAMES]; /* the position of each, relative to the stack pointer */
    } entries[WEFT__UNWIND_CACHE_ENTRIES];
};

/* Fill in the program counters of the stack sample, innermost first; the first is the fiber's
 * position, all others are return addresses. Returns their number, at most 128. `unwind_cache` is
 * the cache, for samples of waiting fibers only; NULL: no cache. */
int weft__stack_sample_unwind(struct weft__stack_sample *stack_sample,
                              struct weft__unwind_cache *unwind_cache, void **pcs, int max);

/* Copy and unwind in one call: a waiting fiber, or whatever fiber the worker runs. Returns the
 * number of program counters; -EAGAIN if the fiber does not wait, there is none, or the worker did
 * not answer within 20 ms; -ENOMEM. The task's slot may be in use by another fiber meanwhile:
 * control blocks are never unmapped. */
int weft__unwind_waiting(struct weft__task *task, void **pcs, int max);
int weft__unwind_running(struct weft__worker *worker, void **pcs, int max);

/* "function+0x1c", or "libx.so+0x2f40" if no symbol is certain to be this function's, as in a
 * stripped file, or the bare address. `returns`: pc is a return address, so the call lies before
 * it. */
void weft__symbol_format(const void *pc, bool returns, char *buf, size_t size);

#endif
