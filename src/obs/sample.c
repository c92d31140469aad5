#include "obs/sample.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/lock.h"
#include "sched/ident.h"
#include "sched/worker.h"

#define PATIENCE_NS 50000000 /* with another sampler, and with a copy that has begun */

/* The request: {tid:32, step:32}. */
enum step {
    IDLE,
    ASKED,   /* by the sampler */
    COPYING, /* by the thread, which has won the request */
    TAKEN,   /* the shot is there */
    OTHER,   /* it runs no such fiber */
};

static struct weft__lock sampling;

static _Atomic(uint64_t) request;
static _Atomic(uint64_t) wanted; /* the fiber; 0: any */
static _Atomic(uint32_t) bell;   /* rung when the request is answered */
static struct weft__shot shot;   /* COPYING: the thread's; else the sampler's */

/* under `sampling` */
static int used_signal;
static bool unanswered; /* since the handler was installed */

static uint64_t word(int tid, enum step step)
{
    return (uint64_t)(uint32_t)tid << 32 | step;
}

static bool move(int tid, enum step from, enum step to)
{
    uint64_t expected = word(tid, from);
    /* Both ways: the shot changes hands. pairs: itself */
    return atomic_compare_exchange_strong_explicit(&request, &expected, word(tid, to),
                                                   memory_order_acq_rel, memory_order_acquire);
}

/* --- in the handler ------------------------------------------------------------------------ */

static void take_registers(const ucontext_t *context)
{
#if defined(__x86_64__)
    static const uint8_t order[WEFT__REGS] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                              REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                              REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    for (int i = 0; i < WEFT__REGS; i++) {
        shot.regs[i] = (uint64_t)context->uc_mcontext.gregs[order[i]];
    }
#else
    for (int i = 0; i < WEFT__REG_SP; i++) {
        shot.regs[i] = context->uc_mcontext.regs[i];
    }
    shot.regs[WEFT__REG_SP] = context->uc_mcontext.sp;
    shot.regs[WEFT__REG_PC] = context->uc_mcontext.pc;
#endif
}

/* The current task may be one that has just ended and given its block up, so its fields may be changing. A stack's
 * record is never unmapped, and that the stack pointer lies in it is what counts. */
__attribute__((no_sanitize("thread"))) static bool take_stack(const struct weft__task *task)
{
    const struct weft__stack *stack = *(struct weft__stack *const volatile *)&task->stack;
    unsigned class = *(const volatile uint8_t *)&task->stack_class;
    if (!stack || class >= WEFT__STACK_CLASSES) {
        return false;
    }
    weft__shot_take(&shot, stack->top - weft__stack_bytes(class), stack->top);
    return shot.bytes > 0;
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    const struct weft__worker *w = weft__worker_self();
    int tid = w ? atomic_load_explicit(&w->tid, memory_order_relaxed) : 0;
    if (!w || !move(tid, ASKED, COPYING)) {
        return; /* not from the sampler, or too late */
    }
    const struct weft__task *task = weft__current(w);
    uint64_t fiber = atomic_load_explicit(&wanted, memory_order_relaxed);
    bool right = task && (!fiber || weft__task_handle(task) == fiber);
    if (right) {
        take_registers(context);
        right = take_stack(task);
    }
    move(tid, COPYING, right ? TAKEN : OTHER);
    atomic_fetch_add_explicit(&bell, 1, memory_order_relaxed);
    weft__futex_wake(&bell, 1);
}

/* --- the sampler ----------------------------------------------------------------------------- */

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_signal;
}

static bool lock_in_time(void)
{
    int64_t deadline = weft__clock_ns() + PATIENCE_NS;
    while (!weft__lock_try(&sampling)) {
        if (weft__clock_ns() > deadline) {
            return false;
        }
        sched_yield();
    }
    return true;
}

int weft__sample_begin(int signal)
{
    struct sigaction present, ours = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    signal = signal ? signal : SIGURG;
    if (!lock_in_time()) {
        return -EBUSY;
    }
    int err = 0;
    ours.sa_sigaction = on_signal;
    sigfillset(&ours.sa_mask);
    if (sigaction(signal, NULL, &present) != 0) {
        err = -EINVAL;
    } else if (is_ours(&present)) {
        err = 0;
    } else if ((present.sa_flags & SA_SIGINFO) || present.sa_handler != SIG_DFL) {
        err = -EBUSY;
    } else if (sigaction(signal, &ours, NULL) != 0) {
        err = -EINVAL;
    } else {
        unanswered = false;
    }
    uint64_t last = atomic_load_explicit(&request, memory_order_acquire); /* pairs: move */
    if (!err && (enum step)(uint32_t)last == COPYING) {
        err = -EBUSY;
    }
    used_signal = signal;
    if (err) {
        weft__unlock(&sampling);
    }
    return err;
}

void weft__sample_end(void)
{
    struct sigaction present, standard = {.sa_handler = SIG_DFL};
    bool harmless = used_signal == SIGURG || used_signal == SIGCHLD || used_signal == SIGWINCH;
    if ((harmless || !unanswered) && sigaction(used_signal, NULL, &present) == 0 &&
        is_ours(&present)) {
        sigaction(used_signal, &standard, NULL);
    }
    weft__unlock(&sampling);
}

/* Until the step is none of the two, or the deadline has passed. */
static enum step await_answer(enum step from, enum step or_from, int64_t deadline)
{
    for (;;) {
        uint32_t rung = atomic_load_explicit(&bell, memory_order_relaxed);
        uint64_t now = atomic_load_explicit(&request, memory_order_acquire); /* pairs: move */
        enum step step = (enum step)(uint32_t)now;
        if ((step != from && step != or_from) || weft__clock_ns() >= deadline) {
            return step;
        }
        weft__futex_wait(&bell, rung, deadline);
    }
}

int weft__sample(int tid, weft_fiber fiber, int64_t deadline, struct weft__shot *out)
{
    if (tid <= 0) {
        return -ESRCH;
    }
    uint64_t last = atomic_load_explicit(&request, memory_order_acquire); /* pairs: move */
    if ((enum step)(uint32_t)last == COPYING) {
        return -ETIMEDOUT; /* still the one before */
    }
    atomic_store_explicit(&wanted, fiber, memory_order_relaxed);
    atomic_store_explicit(&request, word(tid, ASKED), memory_order_release); /* pairs: move */
    if (syscall(SYS_tgkill, getpid(), tid, used_signal) != 0) {
        return move(tid, ASKED, IDLE) ? -ESRCH : -EAGAIN;
    }
    enum step step = await_answer(ASKED, COPYING, deadline);
    if (step == ASKED && move(tid, ASKED, IDLE)) {
        unanswered = true;
        return -ETIMEDOUT;
    }
    step = await_answer(COPYING, COPYING, weft__clock_ns() + PATIENCE_NS);
    if (step == COPYING) {
        return -ETIMEDOUT;
    }
    if (step == TAKEN) {
        memcpy(out->regs, shot.regs, sizeof out->regs);
        memcpy(out->stack, shot.stack, shot.bytes);
        out->first = shot.first;
        out->bytes = shot.bytes;
    }
    return step == TAKEN ? 0 : -EAGAIN;
}
