/* Backtraces of fibers, waiting or running, without stopping anything for longer than a copy.
 *
 * A fiber is never unwound where it lies. Its registers and the used part of its stack are copied
 * into a *shot*: of a waiting fiber while it is held (weft__task_hold), of a running one by its own
 * thread in a signal handler (obs/sample.h). The unwinder reads the copy, and beside it only the
 * tables of loaded objects, so neither a torn stack nor a wild pointer can do more than end the
 * backtrace.
 */
#ifndef WEFT_OBS_UNWIND_H
#define WEFT_OBS_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sched/task.h"

struct weft__worker;

#define WEFT__SHOT_BYTES ((size_t)64 * 1024) /* the whole of a stack of the default size */

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

struct weft__shot {
    uint64_t regs[WEFT__REGS]; /* those that are not known are 0 */
    uint64_t first;            /* the address of what is in stack[0] */
    size_t bytes;              /* how much of `stack` is used */
    uint64_t stack[WEFT__SHOT_BYTES / sizeof(uint64_t)];
};

/* Is there an unwinder in this build? */
bool weft__unwind_works(void);
/* Allocates what unwinding needs once and for all, so that it needs nothing later. False: no
 * memory. */
bool weft__unwind_prepare(void);

/* Copies the used part of a stack; regs are set already. Copies nothing if the stack pointer is not
 * in it. Async-signal-safe. */
void weft__shot_take(struct weft__shot *shot, const char *bottom, const char *top);
/* Of a task that is held. */
void weft__shot_take_held(struct weft__shot *shot, const struct weft__task *task);

#define WEFT__TRAILS 64
#define WEFT__TRAIL_FRAMES 128

/* Backtraces of waiting fibers that were made before. Zeroed: none. Always used with the same limit
 * of frames. */
struct weft__trails {
    unsigned next; /* to be overwritten */
    struct weft__trail {
        int count;
        uint64_t fp; /* the frame pointer, from the stack pointer */
        void *pcs[WEFT__TRAIL_FRAMES];
        uint64_t at[WEFT__TRAIL_FRAMES]; /* where each was found, from the stack pointer */
    } trails[WEFT__TRAILS];
};

/* Program counters of the shot, innermost first; the first is where the fiber is, all others are
 * where calls return to. Returns how many, at most 128. `known` is for shots of waiting fibers
 * alone; NULL: from the tables. */
int weft__shot_unwind(struct weft__shot *shot, struct weft__trails *known, void **pcs, int max);

/* The same in one step, for a waiting fiber and for whatever fiber the worker runs. How many;
 * -EAGAIN: it does not wait, there is none, or the worker did not answer within 20 ms; -ENOMEM. The
 * task's slot may be anybody's: blocks are never unmapped. */
int weft__unwind_waiting(struct weft__task *task, void **pcs, int max);
int weft__unwind_running(struct weft__worker *worker, void **pcs, int max);

/* "function+0x1c", or "libx.so+0x2f40" where there is no symbol that is certain to be this
 * function's, as in a file that was stripped, or the bare address. `returns`: pc
 * is where a call returns to, so the call lies before it. */
void weft__symbol(const void *pc, bool returns, char *buf, size_t size);

#endif
