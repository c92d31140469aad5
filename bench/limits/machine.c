/* The cost on this machine of the operations that a scheduler is made of; printed above every
 * comparison. */
#include "../measure.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

__attribute__((noinline)) static void leaf(void)
{
    __asm__ volatile("" ::: "memory");
}

static double call(void)
{
    const int n = 100000000;
    void (*volatile target)(void) = leaf;
    uint64_t start = now_ns();
    for (int i = 0; i < n; i++)
        target();
    return ns_since(start) / n;
}

static double atomic_add(void)
{
    const int n = 50000000;
    static atomic_long word;
    uint64_t start = now_ns();
    for (int i = 0; i < n; i++)
        atomic_fetch_add(&word, 1);
    return ns_since(start) / n;
}

static double clock_read(void)
{
    const int n = 5000000;
    volatile uint64_t last;
    uint64_t start = now_ns();
    for (int i = 0; i < n; i++)
        last = now_ns();
    (void)last;
    return ns_since(start) / n;
}

static double system_call(void)
{
    const int n = 1000000;
    uint64_t start = now_ns();
    for (int i = 0; i < n; i++)
        syscall(SYS_getppid);
    return ns_since(start) / n;
}

static double page_fault(void)
{
    const size_t pages = 50000, page = 4096;
    char *area = mmap(NULL, pages * page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED)
        abort();
    madvise(area, pages * page, MADV_NOHUGEPAGE);
    uint64_t start = now_ns();
    for (size_t i = 0; i < pages; i++)
        area[i * page] = 1;
    return ns_since(start) / (double)pages;
}

/* usage: machine [call]; call: measure only the first */
int main(int argc, char **argv)
{
    (void)argv;
    report("limit", "machine_call", "", call(), "ns");
    if (argc > 1)
        return 0;
    report("limit", "machine_atomic_add", "", atomic_add(), "ns");
    report("limit", "machine_clock_read", "", clock_read(), "ns");
    report("limit", "machine_system_call", "", system_call(), "ns");
    report("limit", "machine_page_fault", "", page_fault(), "ns");
}
