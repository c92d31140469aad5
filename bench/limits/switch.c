/* The cost of a switch without a scheduler: bare stacks, callee-saved registers only, left by an
 * indirect jump. (Leaving by `ret` upsets the return predictor where the two sides resume at
 * different places.) x86-64 only. Prints the floor of `switch` (two stacks) or, with "ring", two
 * floors of `yield1`: 1,000 stacks in turn that have long been in use, and `limit-cold`, 1,000
 * turns each on stacks that are guarded and touched for the first time, as in the workload. */
#include "../measure.h"

#include <string.h>
#include <sys/mman.h>

#ifndef __x86_64__
#error "written for x86-64"
#endif

enum { STACK_BYTES = 16384, REGISTERS = 6, LINES = 32, LINE = 128 };

__attribute__((naked, noinline)) static void bare_switch(void **from_sp, void *to_sp)
{
    (void)from_sp;
    (void)to_sp;
    __asm__ volatile("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
                     "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
                     "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
                     "pop %rcx\n jmp *%rcx");
}

struct bare {
    void *sp;
    struct bare *next;
} __attribute__((aligned(64)));

static struct bare *current, base;
static long turns_left;

static void take_turns(void)
{
    for (;;) {
        struct bare *self = current;
        current = --turns_left > 0 ? self->next : &base;
        bare_switch(&self->sp, current->sp);
    }
}

static void answer(void)
{
    for (;;)
        bare_switch(&current->sp, base.sp);
}

/* Returns the stack pointer of a context that starts in `entry`, which never returns. */
static void *first_sp(char *top, void (*entry)(void))
{
    void **slot = (void **)(top - 64);
    *slot = (void *)entry;
    return slot - REGISTERS;
}

static double two_stacks(void)
{
    static char stack[STACK_BYTES] __attribute__((aligned(64)));
    static struct bare other;
    const int rounds = 50000000;
    other.sp = first_sp(stack + sizeof stack, answer);
    current = &other;
    uint64_t start = now_ns();
    for (int i = 0; i < rounds; i++)
        bare_switch(&base.sp, other.sp);
    return ns_since(start) / rounds / 2;
}

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

/* The stacks of a workload that begins with none: reserved in advance, guarded and touched while
 * the clock runs. */
static double cold_ring_of(int count, int turns_each)
{
    enum { GUARD_BYTES = 65536, STRIDE = GUARD_BYTES + STACK_BYTES };
    char *stacks = mmap(NULL, (size_t)count * STRIDE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct bare *ring = aligned_alloc(64, sizeof *ring * (size_t)count);
    if (stacks == MAP_FAILED || !ring)
        abort();
    uint64_t start = now_ns();
    for (int i = 0; i < count; i++) {
        char *guard = stacks + (size_t)i * STRIDE;
        if (madvise(guard, GUARD_BYTES, MADV_GUARD_INSTALL) != 0)
            mprotect(guard, GUARD_BYTES, PROT_NONE);
        char *top = guard + STRIDE - (size_t)(i % LINES) * LINE;
        ring[i].sp = first_sp(top, take_turns);
        ring[i].next = &ring[(i + 1) % count];
    }
    turns_left = (long)count * turns_each;
    current = &ring[0];
    bare_switch(&base.sp, ring[0].sp);
    return ns_since(start) / ((double)count * turns_each);
}

/* Tops are spread over cache lines: at a power-of-two stride they would share a few cache sets. */
static double ring_of(int count)
{
    const long turns = 5000000;
    char *stacks = mmap(NULL, (size_t)count * STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct bare *ring = aligned_alloc(64, sizeof *ring * (size_t)count);
    if (stacks == MAP_FAILED || !ring)
        abort();
    for (int i = 0; i < count; i++) {
        char *top = stacks + (size_t)(i + 1) * STACK_BYTES - (size_t)(i % LINES) * LINE;
        ring[i].sp = first_sp(top, take_turns);
        ring[i].next = &ring[(i + 1) % count];
    }
    double best = 0;
    for (int pass = 0; pass < 4; pass++) { /* the first pass touches the pages */
        turns_left = turns;
        current = &ring[0];
        uint64_t start = now_ns();
        bare_switch(&base.sp, ring[0].sp);
        double ns = ns_since(start) / (double)turns;
        if (pass == 1 || (pass > 1 && ns < best))
            best = ns;
    }
    return best;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "ring")) {
        report("limit-cold", "yield1", "", cold_ring_of(1000, 1000), "ns/yield");
        report("limit", "yield1", "", ring_of(1000), "ns/yield");
    } else {
        report("limit", "switch", "", two_stacks(), "ns/switch");
    }
}
