/* libunwind follows a fiber's frames by its unwind tables: from inside, to the entry and no
 * further; and from outside, for a suspended fiber, beginning with the three words that the switch
 * saved. */
/* needs: libunwind */
/* not under: valgrind */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include <weft/weft.h>

#include "check.h"
#include "task/ident.h"
#include "task/slab.h"

#define DEPTH 10
#include "context/deep.h"
#define MOST 64

struct trace {
    int count;
    bool ended; /* the unwinder found the last frame, not an error */
    char names[MOST][48];
};

static void follow(unw_cursor_t *cursor, struct trace *trace)
{
    int more = 1;
    for (trace->count = 0; trace->count < MOST && more > 0; more = unw_step(cursor)) {
        unw_word_t offset;
        char *name = trace->names[trace->count++];
        if (unw_get_proc_name(cursor, name, sizeof trace->names[0], &offset) != 0) {
            snprintf(name, sizeof trace->names[0], "?");
        }
    }
    trace->ended = more == 0;
}

static int named(const struct trace *trace, const char *name)
{
    int found = 0;
    for (int i = 0; i < trace->count; i++) {
        found += strcmp(trace->names[i], name) == 0;
    }
    return found;
}

static void check_trace(const struct trace *trace, const char *innermost)
{
    bool right = trace->ended && trace->count > 2 && named(trace, innermost) == 1 &&
                 named(trace, "deeper") == DEPTH && named(trace, "call_deep") == 1 &&
                 strcmp(trace->names[trace->count - 2], "weft__fiber_main") == 0 &&
                 strcmp(trace->names[trace->count - 1], "weft__context_entry") == 0;
    for (int i = 0; i < trace->count && !right; i++) {
        printf("#%d %s\n", i, trace->names[i]);
    }
    fflush(stdout);
    CHECK(right);
}

/* --- from inside ---------------------------------------------------------------------------- */

static struct trace seen;

__attribute__((noinline)) static long unwind_here(void)
{
    unw_context_t context;
    unw_cursor_t cursor;
    CHECK_EQ(unw_getcontext(&context), 0);
    CHECK_EQ(unw_init_local(&cursor, &context), 0);
    follow(&cursor, &seen);
    return seen.count;
}

__attribute__((noinline)) static long park_here(void)
{
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    long result = unwind_here();         /* and again, after the fiber was resumed */
    __asm__ volatile("" : "+r"(result)); /* prevents a tail call */
    return result;
}

static void *nothing(void *arg)
{
    return arg;
}

__attribute__((noinline)) static long yield_here(void)
{
    CHECK_EQ(weft_spawn(NULL, nothing, NULL, NULL), 0); /* a fiber to yield to */
    weft_yield();
    long result = unwind_here();
    __asm__ volatile("" : "+r"(result));
    return result;
}

static void run_deep(long (*innermost)(void))
{
    memset(&seen, 0, sizeof seen);
    CHECK_EQ(
        weft_run(NULL, call_deep, &innermost, &(struct weft_pool_opts){.workers = 1}, WEFT_FOREVER),
        0);
}

TEST(running_fiber_unwinds_to_its_entry)
{
    run_deep(unwind_here);
    check_trace(&seen, "unwind_here");
}

TEST(resumed_fiber_unwinds_to_its_entry)
{
    run_deep(yield_here);
    check_trace(&seen, "yield_here");
}

/* --- from outside ---------------------------------------------------------------------------- */

/* The context of a fiber that is known to be suspended and to stay suspended. */
static const struct weft__context *context_of(weft_fiber fiber)
{
    struct weft__task *task = weft__slab_find((uint32_t)fiber);
    CHECK(task != NULL && weft__task_handle(task) == fiber);
    CHECK_EQ(weft__task_state(task), WEFT__TASK_WAITING);
    return &task->ctx;
}

static void unwind_suspended(weft_fiber fiber)
{
    const struct weft__context *saved = context_of(fiber);
    unw_context_t context;
    unw_cursor_t cursor;
    CHECK_EQ(unw_getcontext(&context), 0);
#if defined(__x86_64__)
    context.uc_mcontext.gregs[REG_RIP] = (greg_t)saved->pc;
    context.uc_mcontext.gregs[REG_RSP] = (greg_t)saved->sp;
    context.uc_mcontext.gregs[REG_RBP] = (greg_t)saved->fp;
#else
    context.uc_mcontext.pc = (uintptr_t)saved->pc;
    context.uc_mcontext.sp = (uintptr_t)saved->sp;
    context.uc_mcontext.regs[29] = (uintptr_t)saved->fp;
#endif
    CHECK_EQ(unw_init_local(&cursor, &context), 0);
    follow(&cursor, &seen);
}

static void *look_at_parked(void *arg)
{
    long (*innermost)(void) = park_here;
    weft_fiber fiber;
    enum weft_fiber_state state;
    CHECK_EQ(weft_spawn(&fiber, call_deep, &innermost, NULL), 0);
    do {
        weft_yield();
        CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    } while (state != WEFT_FIBER_WAITING);
    unwind_suspended(fiber);
    check_trace(&seen, "park_here");
    CHECK_EQ(named(&seen, "weft_fiber_park"), 1);
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    check_trace(&seen, "park_here");
    CHECK_EQ(named(&seen, "unwind_here"), 1);
    return arg;
}

TEST(suspended_fiber_unwinds_from_saved_context)
{
    CHECK_EQ(
        weft_run(NULL, look_at_parked, NULL, &(struct weft_pool_opts){.workers = 1}, WEFT_FOREVER),
        0);
}
