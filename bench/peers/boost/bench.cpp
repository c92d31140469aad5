// Boost.Context and Boost.Fiber. Usage: boost WORKLOAD WORKERS [FIBERS]
// WORKERS: 1 = round_robin, 2 = work_stealing over two threads.
#include "../../measure.h"

#include <atomic>
#include <boost/context/fiber.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <boost/fiber/algo/work_stealing.hpp>
#include <boost/fiber/all.hpp>
#include <string>
#include <thread>

namespace fibers = boost::fibers;
namespace context = boost::context;

static const char *workers;

// On a recycled stack of 16 KiB: Boost's fastest way to start a fiber.
template <class F> static void spawn_pooled(F &&f)
{
    static thread_local context::pooled_fixedsize_stack stacks(16384);
    fibers::fiber(fibers::launch::post, std::allocator_arg, stacks, std::forward<F>(f)).detach();
}

// On a stack of its own of the default size: less resident memory, and what skynet survives with.
template <class F> static void spawn_default(F &&f)
{
    fibers::fiber(fibers::launch::post, std::forward<F>(f)).detach();
}

class countdown
{
  public:
    explicit countdown(long n) : left_(n)
    {
    }
    void done()
    {
        if (left_.fetch_sub(1) == 1) {
            std::lock_guard<fibers::mutex> lock(mutex_);
            zero_.notify_all();
        }
    }
    void wait()
    {
        std::unique_lock<fibers::mutex> lock(mutex_);
        zero_.wait(lock, [this] { return left_.load() == 0; });
    }

  private:
    std::atomic<long> left_;
    fibers::mutex mutex_;
    fibers::condition_variable zero_;
};

// Boost.Context always switches the FP control words, so this is its lean and its full form.
static void raw_switch()
{
    const int rounds = 20000000;
    context::fiber other{[](context::fiber &&back) {
        for (;;)
            back = std::move(back).resume();
        return std::move(back);
    }};
    uint64_t start = now_ns();
    for (int i = 0; i < rounds; i++)
        other = std::move(other).resume();
    double each = ns_since(start) / rounds / 2;
    report("boost", "switch", "", each, "ns/switch");
    report("boost", "switch_full", "", each, "ns/switch");
}

static void yield()
{
    const int count = 1000, yields = 1000;
    countdown all(count);
    uint64_t start = now_ns();
    for (int i = 0; i < count; i++)
        spawn_pooled([&] {
            for (int j = 0; j < yields; j++)
                boost::this_fiber::yield();
            all.done();
        });
    all.wait();
    report("boost", "yield", workers, ns_since(start) / (count * yields), "ns/yield");
}

static void spawn_batches()
{
    const int batches = 1000, batch = 1000;
    uint64_t start = now_ns();
    for (int i = 0; i < batches; i++) {
        countdown all(batch);
        for (int j = 0; j < batch; j++)
            spawn_pooled([&] { all.done(); });
        all.wait();
    }
    report("boost", "spawnb", workers, ns_since(start) / (batches * batch), "ns/spawn");
}

static void pingpong()
{
    const int rounds = 100000; // with two workers up to 30 us each
    fibers::unbuffered_channel<int> ping, pong;
    spawn_pooled([&] {
        for (int i = 0; i < rounds; i++)
            pong.push(ping.value_pop());
    });
    uint64_t start = now_ns();
    for (int i = 0; i < rounds; i++) {
        ping.push(i);
        pong.value_pop();
    }
    report("boost", "pingpong", workers, ns_since(start) / rounds, "ns/roundtrip");
}

using channel = fibers::buffered_channel<long>;

static void mpsc()
{
    const int producers = 4, each = 250000;
    channel numbers(1024);
    uint64_t start = now_ns();
    for (int i = 0; i < producers; i++)
        spawn_pooled([&] {
            for (long j = 1; j <= each; j++)
                numbers.push(j);
        });
    long sum = 0;
    for (int i = 0; i < producers * each; i++)
        sum += numbers.value_pop();
    double took = ns_since(start);
    if (sum != (long)producers * each * (each + 1) / 2)
        abort();
    report("boost", "mpsc", workers, producers * each * 1e3 / took, "Mmsg/s");
}

static void sky(channel *up, long first, long leaves)
{
    if (leaves == 1) {
        up->push(first);
        return;
    }
    channel down(16);
    for (int i = 0; i < 10; i++)
        spawn_default(
            [&down, first = first + i * (leaves / 10), leaves] { sky(&down, first, leaves / 10); });
    long sum = 0;
    for (int i = 0; i < 10; i++)
        sum += down.value_pop();
    up->push(sum);
}

static void skynet()
{
    channel root(2);
    uint64_t start = now_ns();
    spawn_default([&] { sky(&root, 0, 1000000); });
    if (root.value_pop() != 499999500000)
        abort();
    report("boost", "skynet", workers, ns_since(start) / 1e6, "ms");
}

static void memory(int count)
{
    fibers::unbuffered_channel<int> never;
    double before = resident_bytes();
    for (int i = 0; i < count; i++)
        spawn_default([&] { never.value_pop(); });
    boost::this_fiber::yield();
    std::string row = "memory_" + std::to_string(count / 1000) + "k";
    report("boost", row.c_str(), "", (resident_bytes() - before) / count, "B/fiber");
}

static void serve_second_worker()
{
    fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(2);
    fibers::mutex mutex;
    fibers::condition_variable never;
    std::unique_lock<fibers::mutex> lock(mutex);
    never.wait(lock, [] { return false; });
}

int main(int, char **args)
{
    std::string workload = args[1];
    workers = args[2];
    if (atoi(workers) == 2) {
        std::thread(serve_second_worker).detach();
        fibers::use_scheduling_algorithm<fibers::algo::work_stealing>(2);
    }
    if (workload == "switch")
        raw_switch();
    else if (workload == "yield")
        yield();
    else if (workload == "spawnb")
        spawn_batches();
    else if (workload == "pingpong")
        pingpong();
    else if (workload == "mpsc")
        mpsc();
    else if (workload == "skynet")
        skynet();
    else if (workload == "memory")
        memory(atoi(args[3]));
    _exit(0); // fibers that never end are left behind
}
