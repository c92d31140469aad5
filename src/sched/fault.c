#include "sched/fault.h"

#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fiber/stack.h"
#include "sched/fork.h"
#include "sched/ident.h"
#include "sched/slab.h"

#define ALT_BYTES ((size_t)64 * 1024)

static struct sigaction before[2]; /* SIGSEGV, SIGBUS */

/* --- the report: async-signal-safe ----------------------------------------- */

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

/* NULL: nobody's; the word is then a link of a list. */
static const struct weft__task *user_of(const struct weft__stack *stack)
{
    const struct weft__task *task = atomic_load_explicit(&stack->user, memory_order_relaxed);
    return weft__slab_holds(task) && task->stack == stack ? task : NULL;
}

static void report(const struct weft__stack *stack, unsigned class, const void *address)
{
    struct text text = {.used = 0};
    const struct weft__task *task = user_of(stack);
    size_t size = weft__stack_bytes(class);
    if (!task) {
        add(&text, "weft: access below a stack that no fiber has");
    } else {
        uint64_t handle = weft__task_handle(task);
        add(&text, "weft: stack overflow in fiber ");
        const char *name = weft__task_name(task);
        add(&text, name[0] ? name : "(unnamed)");
        add(&text, " #");
        add_number(&text, (uint32_t)handle, 10);
        add(&text, ".");
        add_number(&text, handle >> 32, 10);
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
    if (write(STDERR_FILENO, text.bytes, text.used) < 0) {
        /* Nowhere to tell it. */
    }
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    unsigned class;
    bool sent = info->si_code <= 0; /* by kill or raise: there is no access, and no address */
    const struct weft__stack *stack = sent ? NULL : weft__stack_of_guard(info->si_addr, &class);
    struct sigaction *old = &before[signal == SIGBUS];
    if (stack) {
        report(stack, class, info->si_addr);
    } else if ((old->sa_flags & SA_SIGINFO) && old->sa_sigaction) {
        old->sa_sigaction(signal, info, context);
        return;
    } else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
        old->sa_handler(signal);
        return;
    } else if (sent && old->sa_handler == SIG_IGN) {
        return;
    }
    /* The same access again, without us: the process ends as it would have, core file and all. */
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(signal, &standard, NULL);
    if (sent) {
        raise(signal); /* comes when this handler has returned */
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
        return; /* an overflow then ends the process without a report */
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
