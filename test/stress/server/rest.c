/* Connections that rest and wake all the time, at moments that clients, timeouts, evictions and
 * hang-ups choose: every request that is sent whole gets its response, or its connection is seen to
 * have ended before; nothing is left over. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>

#include "http/client.h"

enum { CLIENTS = 6 };

static struct {
    struct served s;
    atomic_ulong answered, ended;
    atomic_long left;
} load;

static int hello(weft_http *req, void *arg)
{
    (void)arg;
    return weft_http_respond(req, 200, "text/plain", "hello", 5);
}

/* One request on a connection that may be closed by a timeout or an eviction at any moment: then
 * there is no response at all, never a part of one. */
static bool exchange(int fd, unsigned *seed)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: t\r\n\r\n";
    char text[1024];
    size_t have = 0, sent = 0, split = rand_r(seed) % 8 ? 0 : 1 + rand_r(seed) % 20;
    if (split && send(fd, request, split, MSG_NOSIGNAL) == (ssize_t)split) { /* a partial head */
        sent = split;
        sched_yield();
    }
    if (send(fd, request + sent, sizeof request - 1 - sent, MSG_NOSIGNAL) < 0) {
        return false;
    }
    do {
        ssize_t n = recv(fd, text + have, sizeof text - 1 - have, 0);
        if (n <= 0) { /* or there was no connection to push out */
            CHECK(have == 0 || strncmp(text, "HTTP/1.1 503 ", 13) == 0);
            return false;
        }
        have += (size_t)n;
        text[have] = '\0';
        setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &(int){1}, sizeof(int)); /* else none rests */
    } while (!strstr(text, "\r\n\r\nhello"));
    CHECK(strncmp(text, "HTTP/1.1 200 ", 13) == 0);
    return true;
}

static void pause_a_little(unsigned *seed)
{
    switch (rand_r(seed) % 16) {
    case 0:
        poll(NULL, 0, 1 + rand_r(seed) % 12);
        break;
    case 1:
    case 2:
    case 3:
        sched_yield();
        break;
    }
}

static void *ask(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    static _Thread_local struct client c;
    while (atomic_fetch_sub(&load.left, 1) > 0) {
        client_open(&c, &load.s);
        setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        for (int n = rand_r(&seed) % 64; n >= 0; n--) {
            bool good = exchange(c.fd, &seed);
            atomic_fetch_add(good ? &load.answered : &load.ended, 1);
            if (!good) {
                break;
            }
            pause_a_little(&seed);
        }
        client_close(&c); /* at rest, about to rest, or in a turn */
    }
    return NULL;
}

static void run(enum weft_driver driver, struct weft_http_server_limits limits, long connections)
{
    pthread_t threads[CLIENTS];
    limits.requests = UINT32_MAX;
    load.left = connections;
    load.answered = load.ended = 0;
    served_make(&load.s, driver, 2, &(struct weft_http_server_opts){.limits = limits});
    served_route(&load.s, "GET", "/", hello);
    served_listen(&load.s);
    for (uintptr_t i = 0; i < CLIENTS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, ask, (void *)(check_seed() + i)), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    while (served_stats(&load.s).open) {
        sched_yield();
    }
    struct weft_http_stats stats = served_stats(&load.s);
    printf("    %lu answered, %lu ended, %lu wakes\n", load.answered, load.ended,
           (unsigned long)stats.wakes);
    CHECK_EQ(stats.at_rest, 0);
    CHECK(stats.by_class[2] >= load.answered);
    CHECK(stats.by_class[2] <= load.answered + load.ended); /* cut while the response was sent */
    CHECK(stats.wakes > 0);
    served_end(&load.s);
}

EACH_DRIVER(every_request_is_answered_while_connections_rest)
{
    long n = check_scale(100);
    run(driver, (struct weft_http_server_limits){.rest_ns = 1}, n);
    CHECK_EQ(load.ended, 0);
    run(driver, (struct weft_http_server_limits){.rest_ns = MS(1)}, n);
    CHECK_EQ(load.ended, 0);
}

/* With a limit of three connections, clients push one another out while these rest and wake. */
EACH_DRIVER(connections_at_rest_are_evicted_at_any_moment)
{
    run(driver, (struct weft_http_server_limits){.rest_ns = 1, .connections = 3}, check_scale(100));
}

EACH_DRIVER(connections_at_rest_time_out_at_any_moment)
{
    run(driver, (struct weft_http_server_limits){.rest_ns = MS(1), .idle_ns = MS(8)},
        check_scale(100));
}
