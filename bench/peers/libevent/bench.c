/* libevent: timers by event_add and event_del, on the loop's thread. Usage: libevent
 * timer_bulk|timer_once */
#include "../../measure.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <string.h>

enum { TIMERS = 1000000, PAIRS = 5000000 };

static struct event_base *base;

static void nothing(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
}

static void timer_bulk(void)
{
    struct event *timers = calloc(TIMERS, sizeof *timers);
    struct timeval *delays = calloc(TIMERS, sizeof *delays);
    uint64_t seed = 1;
    for (int i = 0; i < TIMERS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t ms = 1000 + (seed >> 33) % 59000;
        delays[i].tv_sec = (time_t)(ms / 1000);
        delays[i].tv_usec = (suseconds_t)(ms % 1000 * 1000);
        event_assign(&timers[i], base, -1, 0, nothing, NULL);
    }
    uint64_t start = now_ns();
    for (int i = 0; i < TIMERS; i++)
        event_add(&timers[i], &delays[i]);
    for (int i = 0; i < TIMERS; i++)
        event_del(&timers[i]);
    report("libevent", "timer_bulk", "", ns_since(start) / TIMERS, "ns");
}

static void timer_once(void)
{
    struct event timer;
    struct timeval delay = {10, 0};
    event_assign(&timer, base, -1, 0, nothing, NULL);
    uint64_t start = now_ns();
    for (int i = 0; i < PAIRS; i++) {
        event_add(&timer, &delay);
        event_del(&timer);
    }
    report("libevent", "timer_once", "", ns_since(start) / PAIRS, "ns");
}

int main(int argc, char **argv)
{
    base = event_base_new();
    if (argc > 1 && !strcmp(argv[1], "timer_once"))
        timer_once();
    else
        timer_bulk();
}
