/* State Threads 1.9, one worker by nature. Usage: st WORKLOAD [FIBERS] */
#include "../../measure.h"

#include <st.h>
#include <string.h>

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
    else if (!strcmp(workload, "memory") && argc > 2)
        memory(atoi(argv[2]));
    _exit(0); /* threads that never end are left behind */
}
