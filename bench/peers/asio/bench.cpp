// Standalone Asio: asio::post into an io_context of one thread, and an echo server.
// Usage: asio crosspost|wake|echo PORT
#include "../../measure.h"

#define ASIO_STANDALONE
#include <asio.hpp>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

using asio::ip::tcp;

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

struct session {
    explicit session(asio::io_context &context) : socket(context)
    {
    }
    tcp::socket socket;
    char bytes[4096];
};

static void echo_one(std::shared_ptr<session> s)
{
    auto &socket = s->socket;
    auto buffer = asio::buffer(s->bytes);
    socket.async_read_some(buffer, [s = std::move(s)](std::error_code error, size_t n) mutable {
        if (error)
            return;
        auto &socket = s->socket;
        auto reply = asio::buffer(s->bytes, n);
        asio::async_write(socket, reply, [s = std::move(s)](std::error_code error, size_t) mutable {
            if (!error)
                echo_one(std::move(s));
        });
    });
}

static void accept_next(asio::io_context &context, tcp::acceptor &acceptor)
{
    auto s = std::make_shared<session>(context);
    auto &socket = s->socket;
    acceptor.async_accept(socket, [&, s = std::move(s)](std::error_code error) mutable {
        if (!error) {
            s->socket.set_option(tcp::no_delay(true));
            echo_one(std::move(s));
        }
        accept_next(context, acceptor);
    });
}

static void echo(unsigned short port)
{
    asio::io_context context(1); // one thread: fewer locks
    tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), port});
    accept_next(context, acceptor);
    context.run();
}

int main(int argc, char **argv)
{
    if (argc > 1 && std::string(argv[1]) == "crosspost")
        crosspost();
    else if (argc > 2 && std::string(argv[1]) == "echo")
        echo((unsigned short)atoi(argv[2]));
    else
        wake();
    _exit(0); // the loop never ends
}
