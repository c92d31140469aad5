/* Weft inside a program with its own epoll loop. This thread is the pool's worker 0, and runs
 * fibers only in weft_pool_poll. Between polls the loop watches weft_pool_fd, which becomes
 * readable when there is work, and sleeps at most until weft_pool_next_deadline. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <weft/weft.h>

static int pipe_ends[2];
static bool served, slept;

/* Waits for the loop: the handler of the pipe unparks this fiber. */
static void *serve(void *arg)
{
    served = weft_fiber_park(WEFT_FOREVER) == 0;
    return arg;
}

/* Sleeps for 5 ms, then writes into the loop's pipe. */
static void *sleeper(void *arg)
{
    slept = weft_fiber_park(weft_after(WEFT_MS(5))) == -ETIMEDOUT;
    if (write(pipe_ends[1], "x", 1) != 1) {
        slept = false;
    }
    return arg;
}

/* Milliseconds until the deadline for epoll_wait, rounded up; -1: forever. */
static int milliseconds_until(int64_t deadline)
{
    int64_t left = deadline - weft_now();
    if (deadline == WEFT_FOREVER) {
        return -1;
    }
    return left <= 0 ? 0 : left > 1000000000 ? 1000 : (int)((left + 999999) / 1000000);
}

static void watch(int epoll, int fd)
{
    struct epoll_event interest = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &interest);
}

int main(void)
{
    weft_pool *pool;
    weft_fiber server, other;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || pipe(pipe_ends) != 0 ||
        weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1, .caller = true}) ||
        weft_pool_start(pool) || weft_pool_spawn(pool, &server, serve, NULL, NULL) ||
        weft_pool_spawn(pool, &other, sleeper, NULL, NULL)) {
        return 1;
    }
    watch(epoll, weft_pool_fd(pool));
    watch(epoll, pipe_ends[0]);

    while (weft_pool_poll(pool) >= 0 && !served) {
        struct epoll_event event;
        int n = epoll_wait(epoll, &event, 1, milliseconds_until(weft_pool_next_deadline(pool)));
        if (n == 1 && event.data.fd == pipe_ends[0]) {
            char byte;
            if (read(pipe_ends[0], &byte, 1) == 1) {
                weft_fiber_unpark(server);
            }
        } /* else: the pool's descriptor or its deadline; the next poll handles both */
    }

    weft_join(server, NULL, WEFT_FOREVER);
    weft_join(other, NULL, WEFT_FOREVER);
    weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(pool);
    close(epoll);
    printf("served: %d, slept: %d\n", served, slept);
    return served && slept ? 0 : 1;
}
