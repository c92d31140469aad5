/* The cost of a million live tasks without a scheduler: a control block of 128 bytes each, in
 * memory that was never used before, is filled in and queued; then each is dequeued and its
 * function called. The floor of `spawn1`, and of `crosspost1` when the poster runs ahead. `limit`
 * uses 4 KiB pages, `limit-huge` uses huge pages, whose cost depends on the host of a virtual
 * machine. */
#include "../measure.h"

#include <sys/mman.h>

enum { TASKS = 1000000, SLAB = 2 << 20 };

struct block {
    struct block *next;
    void (*fn)(void *);
    void *arg;
    uint64_t rest[13];
};

static void count_down(void *left)
{
    --*(long *)left;
}

static double spawn(int advice)
{
    size_t bytes = (sizeof(struct block) * TASKS / SLAB + 2) * SLAB;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    madvise(memory, bytes, advice);
    struct block *blocks = (struct block *)(void *)(memory + SLAB - (uintptr_t)memory % SLAB);
    struct block *first = NULL, **last = &first;
    long left = TASKS;
    uint64_t start = now_ns();
    for (int i = 0; i < TASKS; i++) {
        struct block *block = &blocks[i];
        *block = (struct block){.fn = count_down, .arg = &left, .rest = {(uint64_t)i}};
        *last = block;
        last = &block->next;
    }
    for (struct block *block = first; block; block = block->next)
        block->fn(block->arg);
    double ns = ns_since(start) / TASKS;
    if (left != 0)
        abort();
    munmap(memory, bytes);
    return ns;
}

int main(void)
{
    report("limit", "spawn1", "", spawn(MADV_NOHUGEPAGE), "ns/spawn");
    report("limit-huge", "spawn1", "", spawn(MADV_HUGEPAGE), "ns/spawn");
}
