/* State Threads 1.9, which always has one worker. Usage: st WORKLOAD [FIBERS or PORT] */
#include "../../measure.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <st.h>
#include <string.h>
#include <sys/socket.h>

enum { STACK_BYTES = 16384 };

static int left;
static st_cond_t zero, ping, pong, never;
static int pinged, ponged;

static void spawn(void *(*body)(void *))
{
    if (!st_thread_create(body, NULL, 0, STACK_BYTES)) {
        perror("st_thread_create");
        _exit(1);
    }
}

static void await_zero(void)
{
    while (left)
        st_cond_wait(zero);
}

static void *count_down(void *arg)
{
    if (--left == 0)
        st_cond_signal(zero);
    return arg;
}

static void *yield_often(void *arg)
{
    for (int i = 0; i < 1000; i++)
        st_usleep(0); /* ST 1.9 has no yield */
    return count_down(arg);
}

static void *answer_pings(void *arg)
{
    for (;;) {
        while (!pinged)
            st_cond_wait(ping);
        pinged = 0;
        ponged = 1;
        st_cond_signal(pong);
    }
    return arg;
}

static void *wait_for_ever(void *arg)
{
    st_cond_wait(never);
    return arg;
}

static void yield(void)
{
    uint64_t start = now_ns();
    left = 1000;
    for (int i = 0; i < 1000; i++)
        spawn(yield_often);
    await_zero();
    report("st", "yield1", "", ns_since(start) / 1e6, "ns/yield");
}

static void spawn_batches(void)
{
    uint64_t start = now_ns();
    for (int i = 0; i < 1000; i++) {
        left = 1000;
        for (int j = 0; j < 1000; j++)
            spawn(count_down);
        await_zero();
    }
    report("st", "spawnb1", "", ns_since(start) / 1e6, "ns/spawn");
}

static void pingpong(void) /* no channel in ST: condition variables, no payload */
{
    spawn(answer_pings);
    uint64_t start = now_ns();
    for (int i = 0; i < 1000000; i++) {
        pinged = 1;
        st_cond_signal(ping);
        while (!ponged)
            st_cond_wait(pong);
        ponged = 0;
    }
    report("st", "pingpong1", "", ns_since(start) / 1e6, "ns/roundtrip");
}

static void memory(int count)
{
    double before = resident_bytes();
    for (int i = 0; i < count; i++)
        spawn(wait_for_ever);
    st_usleep(1000);
    char row[32];
    snprintf(row, sizeof row, "memory_%dk", count / 1000);
    report("st", row, "", (resident_bytes() - before) / count, "B/fiber");
}

static void *echo_one(void *arg)
{
    st_netfd_t connection = arg;
    char bytes[4096];
    ssize_t n;
    while ((n = st_read(connection, bytes, sizeof bytes, ST_UTIME_NO_TIMEOUT)) > 0)
        if (st_write(connection, bytes, (size_t)n, ST_UTIME_NO_TIMEOUT) != n)
            break;
    st_netfd_close(connection);
    return NULL;
}

static void echo(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 4096)) {
        perror("listen");
        _exit(1);
    }
    st_netfd_t listener = st_netfd_open_socket(fd);
    for (;;) {
        st_netfd_t connection = st_accept(listener, NULL, NULL, ST_UTIME_NO_TIMEOUT);
        if (!connection)
            continue;
        setsockopt(st_netfd_fileno(connection), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (!st_thread_create(echo_one, connection, 0, STACK_BYTES))
            _exit(1);
    }
}

int main(int argc, char **argv)
{
    const char *workload = argv[1];
    st_set_eventsys(ST_EVENTSYS_ALT);
    st_init();
    zero = st_cond_new();
    ping = st_cond_new();
    pong = st_cond_new();
    never = st_cond_new();
    if (!strcmp(workload, "yield"))
        yield();
    else if (!strcmp(workload, "spawnb"))
        spawn_batches();
    else if (!strcmp(workload, "pingpong"))
        pingpong();
    else if (!strcmp(workload, "echo") && argc > 2)
        echo(atoi(argv[2]));
    else if (!strcmp(workload, "memory") && argc > 2)
        memory(atoi(argv[2]));
    _exit(0); /* skips threads that never end */
}
