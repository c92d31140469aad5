#include "backtrace/sample.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "backtrace/sample_request.h"
#include "base/clock.h"
#include "lock/lock.h"
#include "task/ident.h"
#include "wait/wake_source.h"
#include "worker/worker.h"

#define SAMPLER_TIMEOUT_NS 50000000 /* for another sampler, and for a copy that has begun */

static struct weft__lock sampling;

static struct weft__request request;
static _Atomic(uint64_t) wanted;               /* the fiber; 0: any */
static struct weft__stack_sample stack_sample; /* written by the sampled thread */

/* under `sampling` */
static int used_signal;
static bool unanswered; /* a request timed out since the handler was installed */

/* --- in the handler ------------------------------------------------------------------------ */

static void copy_registers(const ucontext_t *context)
{
#if defined(__x86_64__)
    static const uint8_t order[WEFT__REGS] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                              REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                              REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
    for (int i = 0; i < WEFT__REGS; i++) {
        stack_sample.regs[i] = (uint64_t)context->uc_mcontext.gregs[order[i]];
    }
#else
    for (int i = 0; i < WEFT__REG_SP; i++) {
        stack_sample.regs[i] = context->uc_mcontext.regs[i];
    }
    stack_sample.regs[WEFT__REG_SP] = context->uc_mcontext.sp;
    stack_sample.regs[WEFT__REG_PC] = context->uc_mcontext.pc;
#endif
}

/* The current task may have just ended and released its control block, so its fields may be
 * changing. The record of a stack is never unmapped, and the check that counts is that the stack
 * pointer lies in the stack. */
__attribute__((no_sanitize("thread"))) static bool copy_stack(const struct weft__task *task)
{
    const struct weft__stack *stack = *(struct weft__stack *const volatile *)&task->stack;
    unsigned class = *(const volatile uint8_t *)&task->stack_class;
    if (!stack || class >= WEFT__STACK_CLASSES) {
        return false;
    }
    weft__stack_sample_copy(&stack_sample, stack->top - weft__stack_bytes(class), stack->top);
    return stack_sample.bytes > 0;
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    const struct weft__worker *w = weft__worker_self();
    int tid = w ? atomic_load_explicit(&w->tid, memory_order_relaxed) : 0;
    if (!w || !weft__request_accept(&request, tid)) {
        return; /* not from the sampler, or too late */
    }
    const struct weft__task *task = weft__current(w);
    uint64_t fiber = atomic_load_explicit(&wanted, memory_order_relaxed);
    bool right = task && (!fiber || weft__task_handle(task) == fiber);
    if (right) {
        copy_registers(context);
        right = copy_stack(task);
    }
    weft__request_complete(&request, tid, right ? WEFT__REQUEST_COPIED : WEFT__REQUEST_NO_SAMPLE);
}

/* --- the sampler ----------------------------------------------------------------------------- */

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_signal;
}

static bool lock_in_time(void)
{
    int64_t deadline = weft__clock_ns() + SAMPLER_TIMEOUT_NS;
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
    ours.sa_sigaction = on_signal;
    weft__wake_source_ignore_handler((uintptr_t)on_signal);
    sigfillset(&ours.sa_mask);
    int err = sigaction(signal, NULL, &present) != 0 ? -EINVAL : 0;
    if (!err && !is_ours(&present)) {
        bool free = !(present.sa_flags & SA_SIGINFO) && present.sa_handler == SIG_DFL;
        err = !free ? -EBUSY : sigaction(signal, &ours, NULL) != 0 ? -EINVAL : 0;
        unanswered = false;
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

int weft__sample(int tid, weft_fiber fiber, int64_t deadline, struct weft__stack_sample *out)
{
    if (tid <= 0) {
        return -ESRCH;
    }
    atomic_store_explicit(&wanted, fiber, memory_order_relaxed);
    if (!weft__request_post(&request, tid)) {
        return -ETIMEDOUT; /* the previous copy is still in progress */
    }
    if (syscall(SYS_tgkill, getpid(), tid, used_signal) != 0) {
        return weft__request_withdraw(&request, tid) ? -ESRCH : -EAGAIN;
    }
    enum weft__request_step step = weft__request_await(&request, deadline);
    if (step == WEFT__REQUEST_POSTED && weft__request_withdraw(&request, tid)) {
        unanswered = true;
        return -ETIMEDOUT;
    }
    step = weft__request_await(&request, weft__clock_ns() + SAMPLER_TIMEOUT_NS);
    if (step == WEFT__REQUEST_COPYING) {
        return -ETIMEDOUT;
    }
    if (step == WEFT__REQUEST_COPIED) {
        memcpy(out->regs, stack_sample.regs, sizeof out->regs);
        memcpy(out->stack, stack_sample.stack, stack_sample.bytes);
        out->first = stack_sample.first;
        out->bytes = stack_sample.bytes;
    }
    return step == WEFT__REQUEST_COPIED ? 0 : -EAGAIN;
}

/* The handler stays installed if it is: the next begin recognises it. */
void weft__sample_fork_child(void)
{
    atomic_store_explicit(&request.word, 0, memory_order_relaxed);
    atomic_store_explicit(&sampling.word, 0, memory_order_relaxed);
}
