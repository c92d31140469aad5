// oneTBB tasks: no stacks of their own, but the bar for trees. Usage: tbb spawn|skynet WORKERS
#include "../../measure.h"

#include <atomic>
#include <string>
#include <tbb/global_control.h>
#include <tbb/task_group.h>

static void start_threads()
{
    tbb::task_group group;
    for (int i = 0; i < 100; i++)
        group.run([] {});
    group.wait();
}

static void spawn(const char *workers)
{
    const int tasks = 1000000;
    std::atomic<long> ran{0};
    tbb::task_group group;
    uint64_t start = now_ns();
    for (int i = 0; i < tasks; i++)
        group.run([&] { ran.fetch_add(1, std::memory_order_relaxed); });
    group.wait();
    report("tbb", "spawn", workers, ns_since(start) / tasks, "ns/spawn");
}

static long sky(long first, long leaves)
{
    if (leaves == 1)
        return first;
    long part[10], sum = 0;
    tbb::task_group group;
    for (int i = 0; i < 10; i++)
        group.run([&, i] { part[i] = sky(first + i * (leaves / 10), leaves / 10); });
    group.wait();
    for (long value : part)
        sum += value;
    return sum;
}

static void skynet(const char *workers)
{
    uint64_t start = now_ns();
    if (sky(0, 1000000) != 499999500000)
        abort();
    report("tbb", "skynet", workers, ns_since(start) / 1e6, "ms");
}

int main(int, char **argv)
{
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, atoi(argv[2]));
    start_threads();
    if (std::string(argv[1]) == "spawn")
        spawn(argv[2]);
    else
        skynet(argv[2]);
}
