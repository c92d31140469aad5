#include "sched/fault.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "context/stack.h"
#include "sched/stackless.h"
#include "task/fork.h"
#include "task/ident.h"
#include "task/slab.h"

#define ALT_BYTES ((size_t)64 * 1024)

_Atomic(weft__fault_describe_fn) weft__fault_describe;

static struct sigaction before[3]; /* SIGSEGV, SIGBUS, SIGABRT */

/* --- messages: async-signal-safe ----------------------------------------- */

struct text {
    char bytes[400];
    size_t used;
};

static void add(struct text *text, const char *s)
{
    while (*s && text->used < sizeof text->bytes) {
        text->bytes[text->used++] = *s++;
    }
}

static void add_number(struct text *text, uint64_t n, unsigned base)
{
    char digits[24];
    size_t i = sizeof digits;
    digits[--i] = 0;
    do {
        digits[--i] = "0123456789abcdef"[n % base];
        n /= base;
    } while (n);
    add(text, digits + i);
}

static void add_handle(struct text *text, const struct weft__task *task)
{
    uint64_t handle = weft__task_handle(task);
    const char *name = weft__task_name(task);
    add(text, name[0] ? name : "(unnamed)");
    add(text, " #");
    add_number(text, (uint32_t)handle, 10);
    add(text, ".");
    add_number(text, handle >> 32, 10);
}

static void write_text(const struct text *text)
{
    if (write(STDERR_FILENO, text->bytes, text->used) < 0) {
        /* There is nowhere to write it. */
    }
}

/* NULL: the stack is not in use; the word is then a list link. */
static const struct weft__task *user_of(const struct weft__stack *stack)
{
    const struct weft__task *task = atomic_load_explicit(&stack->user, memory_order_relaxed);
    return weft__slab_holds(task) && task->stack == stack ? task : NULL;
}

static void report_overflow(const struct weft__stack *stack, unsigned class, const void *address)
{
    struct text text = {.used = 0};
    const struct weft__task *task = user_of(stack);
    size_t size = weft__stack_bytes(class);
    if (!task) {
        add(&text, "weft: access below a stack that no fiber uses");
    } else {
        add(&text, "weft: stack overflow in fiber ");
        add_handle(&text, task);
    }
    add(&text, ": stack of ");
    add_number(&text, size, 10);
    add(&text, " bytes, high-water mark ");
    add_number(&text, weft__stack_high_water(stack, class), 10);
    add(&text, ", access ");
    add_number(&text, (uint64_t)(stack->top - size - (const char *)address), 10);
    add(&text, " bytes below it, at 0x");
    add_number(&text, (uint64_t)(uintptr_t)address, 16);
    add(&text, "\n");
    write_text(&text);
}

static void add_what(struct text *text, int signal)
{
    add(text, "weft: ");
    add(text, signal == SIGABRT ? "abort" : signal == SIGBUS ? "bus error" : "bad access");
}

static void add_topic(struct text *text, const char *topic)
{
    if (topic) {
        add(text, ", last message ");
        add(text, topic);
    }
    add(text, "\n");
}

static void report_stackless(const struct weft__task *task, int signal)
{
    struct text text = {.used = 0};
    const struct weft__stackless_kind *stackless = task->stackless;
    add_what(&text, signal);
    add(&text, " in a step of ");
    add(&text, stackless->what);
    add(&text, " ");
    if (stackless->identify) {
        text.used +=
            stackless->identify(task, text.bytes + text.used, sizeof text.bytes - text.used);
    } else {
        add_handle(&text, task);
    }
    add_topic(&text, stackless->identify ? weft__stackless_note(task) : NULL);
    write_text(&text);
}

/* Appends what a higher layer knows about the fiber. False: nothing. */
static bool add_description(struct text *text, const struct weft__task *task)
{
    /* pairs: weft__actor_info_register */
    weft__fault_describe_fn describe =
        atomic_load_explicit(&weft__fault_describe, memory_order_acquire);
    size_t n = describe ? describe(weft__task_handle(task), text->bytes + text->used,
                                   sizeof text->bytes - text->used)
                        : 0;
    text->used += n;
    return n > 0;
}

static void report_fiber(const struct weft__task *task, int signal, const void *address)
{
    struct text text = {.used = 0};
    add_what(&text, signal);
    add(&text, " in fiber ");
    if (!add_description(&text, task)) {
        add_handle(&text, task);
        if (signal != SIGABRT) {
            add(&text, ", at 0x");
            add_number(&text, (uint64_t)(uintptr_t)address, 16);
        }
    }
    add(&text, "\n");
    write_text(&text);
}

/* Reports the stackless task whose step runs on this thread, or the fiber, if there is one. */
static void report_culprit(int signal, const void *address)
{
    const struct weft__worker *w = weft__worker_self();
    const struct weft__task *stackless =
        w ? atomic_load_explicit(&w->stackless, memory_order_relaxed) : NULL;
    const struct weft__task *fiber = w && !stackless ? weft__current(w) : NULL;
    if (stackless) {
        report_stackless(stackless, signal);
    } else if (fiber) {
        report_fiber(fiber, signal, address);
    }
}

/* A program with a handler of its own may rely on faults, as a garbage collector does. */
static bool should_report(const struct sigaction *old)
{
    static _Atomic(bool) said;
    bool handled =
        (old->sa_flags & SA_SIGINFO) || (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN);
    return !handled || !atomic_exchange_explicit(&said, true, memory_order_relaxed);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    unsigned class;
    bool sent = info->si_code <= 0; /* by kill or raise: there is no access and no address */
    const struct weft__stack *stack = sent ? NULL : weft__stack_of_guard(info->si_addr, &class);
    struct sigaction *old = &before[signal == SIGABRT ? 2 : signal == SIGBUS];
    if (!stack && (!sent || signal == SIGABRT) && should_report(old)) {
        report_culprit(signal, info->si_addr);
    }
    if (stack) {
        report_overflow(stack, class, info->si_addr);
    } else if ((old->sa_flags & SA_SIGINFO) && old->sa_sigaction) {
        old->sa_sigaction(signal, info, context);
        return;
    } else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
        old->sa_handler(signal);
        return;
    } else if (sent && old->sa_handler == SIG_IGN) {
        return;
    }
    /* The same access is repeated without our handler: the process ends as usual, with a core
     * file. */
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(signal, &standard, NULL);
    if (sent) {
        raise(signal); /* delivered when this handler has returned */
    }
}

static void install(void)
{
    struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    sigaction(SIGSEGV, &ours, &before[0]);
    sigaction(SIGBUS, &ours, &before[1]);
}

void weft__fault_install(void)
{
    static struct weft__fork_once once;
    weft__fork_once(&once, install);
}

static void install_abort(void)
{
    struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&ours.sa_mask);
    sigaction(SIGABRT, &ours, &before[2]);
}

void weft__fault_install_abort(void)
{
    static struct weft__fork_once once;
    weft__fork_once(&once, install_abort);
}

/* --- the alternate stack --------------------------------------------------------- */

static _Thread_local void *alt_stack;

void weft__fault_enter_thread(void)
{
    stack_t present;
    if (sigaltstack(NULL, &present) != 0 || !(present.ss_flags & SS_DISABLE)) {
        return;
    }
    void *memory =
        mmap(NULL, ALT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return; /* without it an overflow ends the process without a message */
    }
    stack_t ours = {.ss_sp = memory, .ss_size = ALT_BYTES};
    if (sigaltstack(&ours, NULL) != 0) {
        munmap(memory, ALT_BYTES);
        return;
    }
    alt_stack = memory;
}

void weft__fault_leave_thread(void)
{
    if (alt_stack) {
        stack_t none = {.ss_flags = SS_DISABLE};
        sigaltstack(&none, NULL);
        munmap(alt_stack, ALT_BYTES);
        alt_stack = NULL;
    }
}
