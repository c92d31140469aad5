/* The cost of `sleep100k` without a scheduler, a timer or a wait: 100,000 stacks that were used
 * before are entered in one order, left after a few frames, and entered again in the order of their
 * deadlines, with a bare switch; the thread sleeps from one millisecond to the next. CPU time,
 * second round, as in the workload. The cost consists of the cache and page-walk misses on separate
 * stacks. x86-64 only. */
#include "../measure.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#ifndef __x86_64__
#error "written for x86-64"
#endif

enum {
    FIBERS = 100000,
    STRIDE = 2 * 65536, /* the stack and its guard */
    REGISTERS = 6,
    LINES = 16,
    LINE = 64,
    FRAMES = 768, /* from the fiber's function to the switch inside weft_sleep */
    SPAN_MS = 1000,
};

__attribute__((naked, noinline)) static void bare_switch(void **from_sp, void *to_sp)
{
    (void)from_sp;
    (void)to_sp;
    __asm__ volatile("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
                     "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
                     "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
                     "pop %rcx\n jmp *%rcx");
}

/* As large as a control block. */
static struct bare {
    void *sp;
    char *top;
    int delay_ms;
    char rest[128 - 20];
} __attribute__((aligned(128))) bares[FIBERS];

static struct bare *current;
static void *base_sp;
static int order[FIBERS], by_deadline[FIBERS];

static double cpu_ms(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

static void touch(volatile char *frames)
{
    for (int i = 0; i < FRAMES; i += LINE)
        frames[i]++;
}

static void rest_once(void)
{
    char frames[FRAMES];
    memset(frames, 0, sizeof frames);
    touch(frames);
    bare_switch(&current->sp, base_sp);
    touch(frames);
    bare_switch(&current->sp, base_sp);
    abort();
}

static void enter(int i)
{
    current = &bares[i];
    bare_switch(&base_sp, current->sp);
}

static void sleep_until(uint64_t ns)
{
    struct timespec at = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    while (now_ns() < ns)
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* Stacks are taken in the order in which the previous round freed them, the last one first. */
static void turn_order(void)
{
    for (int i = 0; i < FIBERS; i++)
        order[i] = by_deadline[FIBERS - 1 - i];
}

static void sort_by_deadline(void)
{
    int n = 0;
    for (int ms = 0; ms < SPAN_MS; ms++)
        for (int i = 0; i < FIBERS; i++)
            if (bares[order[i]].delay_ms == ms)
                by_deadline[n++] = order[i];
}

static double round_of(uint64_t *seed)
{
    for (int i = 0; i < FIBERS; i++) {
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        bares[order[i]].delay_ms = (int)((*seed >> 33) % SPAN_MS);
    }
    sort_by_deadline();
    double before = cpu_ms();
    for (int i = 0; i < FIBERS; i++) {
        struct bare *bare = &bares[order[i]];
        void **slot = (void **)(void *)(bare->top - (size_t)(i % LINES) * LINE - 64);
        *slot = (void *)rest_once;
        bare->sp = slot - REGISTERS;
        enter(order[i]);
    }
    uint64_t start = now_ns();
    for (int i = 0; i < FIBERS; i++) {
        int next = by_deadline[i];
        if (i == 0 || bares[next].delay_ms != bares[by_deadline[i - 1]].delay_ms)
            sleep_until(start + (uint64_t)bares[next].delay_ms * 1000000);
        enter(next);
    }
    return cpu_ms() - before;
}

int main(void)
{
    uint64_t seed = 1;
    char *stacks = mmap(NULL, (size_t)FIBERS * STRIDE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
        abort();
    madvise(stacks, (size_t)FIBERS * STRIDE, MADV_NOHUGEPAGE);
    for (int i = 0; i < FIBERS; i++) {
        bares[i].top = stacks + (size_t)(i + 1) * STRIDE;
        order[i] = i;
    }
    round_of(&seed);
    turn_order();
    report("limit", "sleep100k", "", round_of(&seed), "ms");
    return 0;
}
