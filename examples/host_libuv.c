/* Weft inside a libuv loop: a uv_poll on the pool's descriptor, a uv_timer for its next deadline.
 * The same three calls as in host_epoll.c: weft_pool_poll, weft_pool_fd,
 * weft_pool_next_deadline. */
/* needs: libuv */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <uv.h>
#include <weft/weft.h>

static weft_pool *pool;
static weft_fiber server;
static uv_poll_t pool_ready;
static uv_timer_t pool_timer, request;
static bool served, slept;

static void run_pool(void);

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
    run_pool();
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    (void)poll;
    (void)status;
    (void)events;
    run_pool();
}

/* Runs the ready fibers, then sets the loop's timer for the next deadline. */
static void run_pool(void)
{
    weft_pool_poll(pool);
    int64_t deadline = weft_pool_next_deadline(pool);
    int64_t left = deadline == WEFT_FOREVER ? 0 : deadline - weft_now();
    uv_timer_stop(&pool_timer);
    if (deadline != WEFT_FOREVER) {
        uint64_t ms = left > 0 ? (uint64_t)(left + 999999) / 1000000 : 0;
        uv_update_time(uv_default_loop());
        uv_timer_start(&pool_timer, on_timer, ms, 0);
    }
    if (served && slept) {
        uv_stop(uv_default_loop());
    }
}

/* A handler of the loop wakes a fiber; the pool's descriptor then becomes readable. */
static void on_request(uv_timer_t *timer)
{
    (void)timer;
    weft_fiber_unpark(server);
}

static void *serve(void *arg)
{
    served = weft_fiber_park(WEFT_FOREVER) == 0;
    return arg;
}

static void *sleeper(void *arg)
{
    slept = weft_fiber_park(weft_after(WEFT_MS(5))) == -ETIMEDOUT;
    return arg;
}

int main(void)
{
    uv_loop_t *loop = uv_default_loop();
    if (weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1, .caller = true}) ||
        weft_pool_start(pool) || weft_pool_spawn(pool, &server, serve, NULL, NULL) ||
        weft_pool_submit(pool, sleeper, NULL)) {
        return 1;
    }
    uv_timer_init(loop, &pool_timer);
    uv_timer_init(loop, &request);
    uv_poll_init(loop, &pool_ready, weft_pool_fd(pool));
    uv_poll_start(&pool_ready, UV_READABLE, on_ready);
    uv_timer_start(&request, on_request, 2, 0);

    run_pool();
    uv_run(loop, UV_RUN_DEFAULT);

    weft_fiber_detach(server);
    uv_close((uv_handle_t *)&pool_ready, NULL);
    uv_close((uv_handle_t *)&pool_timer, NULL);
    uv_close((uv_handle_t *)&request, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_loop_close(loop);
    weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(pool);
    printf("served: %d, slept: %d\n", served, slept);
    return served && slept ? 0 : 1;
}
