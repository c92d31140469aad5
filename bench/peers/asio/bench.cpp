// Standalone Asio: asio::post into an io_context of one thread. Usage: asio crosspost|wake
#include "../../measure.h"

#define ASIO_STANDALONE
#include <asio.hpp>
#include <atomic>
#include <string>
#include <thread>

static asio::io_context io;

static void start_loop(bool pinned)
{
    static auto guard = asio::make_work_guard(io);
    if (pinned)
        pin_to(1);
    std::thread([pinned] {
        if (pinned)
            pin_to(0);
        io.run();
    }).detach();
    usleep(10000);
}

static void crosspost()
{
    const int posts = 1000000;
    static std::atomic<int> left{posts};
    start_loop(true);
    uint64_t start = now_ns();
    for (int i = 0; i < posts; i++)
        asio::post(io, [] { left.fetch_sub(1, std::memory_order_release); });
    while (left.load())
        sched_yield();
    report("asio", "crosspost1", "", posts * 1e3 / ns_since(start), "Mtask/s");
}

static void wake()
{
    const int wakes = 2000;
    static uint64_t latency[wakes];
    static std::atomic<int> ran{0};
    start_loop(false);
    for (int i = 0; i < wakes; i++) {
        usleep(500);
        uint64_t posted = now_ns();
        asio::post(io, [i, posted] {
            latency[i] = now_ns() - posted;
            ran = i + 1;
        });
        while (ran != i + 1)
            sched_yield();
    }
    report_latency("asio", "wake", latency, wakes);
}

int main(int argc, char **argv)
{
    if (argc > 1 && std::string(argv[1]) == "crosspost")
        crosspost();
    else
        wake();
    _exit(0); // the loop never ends
}
