/* The loop itself: turns, stop, posts, timers, a host. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include "io/drivers.h"

static weft_loop *loop;

static void open_loop(enum weft_driver driver)
{
    CHECK_EQ(weft_loop_create(&loop, &(struct weft_loop_opts){.driver = driver}), 0);
}

static char order[8], letters[] = "abc";

static void note(void *arg)
{
    strncat(order, arg, 1);
}

static void stops(void *arg)
{
    (void)arg;
    weft_loop_stop(loop);
}

EACH_DRIVER(loop_posts_are_called_in_order)
{
    open_loop(driver);
    CHECK_STR(weft_loop_driver(loop), drivers_names[driver]);
    order[0] = '\0';
    CHECK_EQ(weft_loop_turn(loop, 0), 0);
    CHECK_EQ(weft_loop_post(loop, note, &letters[0]), 0);
    CHECK_EQ(weft_loop_post(loop, note, &letters[1]), 0);
    CHECK_EQ(weft_loop_post(loop, stops, NULL), 0);
    weft_loop_run(loop);
    CHECK_STR(order, "ab");
    CHECK_EQ(weft_loop_post(loop, note, &letters[2]), 0);
    weft_loop_destroy(loop); /* calls the remaining functions */
    CHECK_STR(order, "abc");
}

static void *posts(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(weft_loop_post(loop, arg, NULL), 0);
    }
    CHECK_EQ(weft_loop_post(loop, stops, NULL), 0);
    return NULL;
}

static int counted;

static void counts(void *arg)
{
    (void)arg;
    counted++;
}

EACH_DRIVER(other_thread_can_post_to_and_stop_loop)
{
    pthread_t thread;
    open_loop(driver);
    counted = 0;
    CHECK_EQ(pthread_create(&thread, NULL, posts, counts), 0);
    weft_loop_run(loop);
    CHECK_EQ(counted, 1000);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    weft_loop_stop(loop); /* a stop before the run ends the run, and is consumed */
    weft_loop_run(loop);
    CHECK_EQ(weft_loop_turn(loop, 0), 0);
    weft_loop_destroy(loop);
}

/* A function that posts itself does not prolong the turn. */
static void posts_again(void *arg)
{
    if (++counted < 10) {
        CHECK_EQ(weft_loop_post(loop, posts_again, arg), 0);
    }
}

EACH_DRIVER(post_from_post_runs_in_next_turn)
{
    open_loop(driver);
    counted = 0;
    CHECK_EQ(weft_loop_post(loop, counts, NULL), 0);
    CHECK_EQ(weft_loop_post(loop, posts_again, NULL), 0);
    CHECK_EQ(weft_loop_turn(loop, WEFT_FOREVER), 2);
    CHECK_EQ(weft_loop_turn(loop, WEFT_FOREVER), 1);
    CHECK_EQ(counted, 3);
    weft_loop_destroy(loop); /* until none posts any more */
    CHECK_EQ(counted, 10);
}

static int64_t fired_at[4];
static int fired;

static void fires(weft_loop_timer *timer, void *arg)
{
    fired_at[fired++] = weft_now();
    if (arg && fired < 3) {
        CHECK(!weft_loop_timer_set(timer, weft_after(1000000)));
    }
}

EACH_DRIVER(loop_timers_fire_in_order_and_never_early)
{
    weft_loop_timer first, second, never;
    open_loop(driver);
    fired = 0;
    weft_loop_timer_init(&first, loop, fires, NULL);
    weft_loop_timer_init(&second, loop, fires, NULL);
    weft_loop_timer_init(&never, loop, fires, NULL);
    int64_t at = weft_after(2000000);
    CHECK(!weft_loop_timer_set(&second, at + 3000000));
    CHECK(!weft_loop_timer_set(&never, at));
    CHECK(weft_loop_timer_cancel(&never));
    CHECK(!weft_loop_timer_cancel(&never));
    CHECK(!weft_loop_timer_set(&first, at + 500000000));
    CHECK(weft_loop_timer_set(&first, at));
    CHECK(weft_loop_next_deadline(loop) >= at);
    CHECK(weft_loop_next_deadline(loop) < at + 3000000);
    int called = 0;
    while (called < 2) { /* in one turn, if the machine was delayed for so long */
        called += weft_loop_turn(loop, WEFT_FOREVER);
    }
    CHECK_EQ(fired, 2);
    CHECK(fired_at[0] >= at);
    CHECK(fired_at[1] >= at + 3000000);
    CHECK_EQ(weft_loop_next_deadline(loop), WEFT_FOREVER);
    weft_loop_destroy(loop);
}

EACH_DRIVER(loop_timer_can_be_set_again_by_its_callback)
{
    weft_loop_timer timer;
    open_loop(driver);
    fired = 0;
    weft_loop_timer_init(&timer, loop, fires, &timer);
    CHECK(!weft_loop_timer_set(&timer, 0));
    while (fired < 3) {
        weft_loop_turn(loop, WEFT_FOREVER);
    }
    weft_loop_destroy(loop);
}

EACH_DRIVER(loop_turn_ends_at_deadline)
{
    open_loop(driver);
    int64_t until = weft_after(3000000);
    CHECK_EQ(weft_loop_turn(loop, until), 0);
    CHECK(weft_now() >= until);
    weft_loop_destroy(loop);
}

/* --- embedded in another loop ---------------------------------------------------------- */

static int called;

static void reads(weft_watch *watch, int fd, int events, void *arg)
{
    char byte;
    (void)watch, (void)arg;
    CHECK_EQ(events, WEFT_READABLE);
    CHECK_EQ(read(fd, &byte, 1), 1);
    called++;
}

/* A host: waits with poll alone. */
static void host_until(const int *what, int value)
{
    while (*what != value) {
        int64_t at = weft_loop_next_deadline(loop), now = weft_now();
        int ms = at == WEFT_FOREVER ? 60000 : at <= now ? 0 : (int)((at - now) / 1000000 + 1);
        struct pollfd ask = {.fd = weft_loop_fd(loop), .events = POLLIN};
        int n = poll(&ask, 1, ms);
        CHECK(n == 1 || ms < 60000); /* otherwise nothing has notified the host */
        weft_loop_turn(loop, 0);
    }
}

static void *writes_late(void *arg)
{
    CHECK_EQ(write(*(int *)arg, "xyz", 3), 3);
    return NULL;
}

EACH_DRIVER(loop_can_be_embedded_in_other_loop)
{
    int ends[2];
    pthread_t thread;
    weft_watch *watch;
    weft_loop_timer timer;
    open_loop(driver);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    called = fired = counted = 0;
    CHECK_EQ(weft_watch_add(loop, &watch, ends[0], WEFT_READABLE, reads, NULL), 0);
    CHECK_EQ(weft_loop_turn(loop, 0), 0);
    CHECK_EQ(pthread_create(&thread, NULL, writes_late, &ends[1]), 0);
    host_until(&called, 3); /* one write, three levels */
    CHECK_EQ(pthread_join(thread, NULL), 0);
    weft_loop_timer_init(&timer, loop, fires, NULL);
    weft_loop_timer_set(&timer, weft_after(2000000));
    host_until(&fired, 1);
    CHECK_EQ(pthread_create(&thread, NULL, posts, counts), 0);
    host_until(&counted, 1000);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_watch_remove(watch), 0);
    CHECK_EQ(weft_loop_close(loop, ends[0]), 0);
    CHECK_EQ(weft_loop_close(loop, ends[1]), 0);
    weft_loop_destroy(loop);
}

TEST(loop_rejects_bad_options)
{
    CHECK_EQ(weft_loop_create(&loop, &(struct weft_loop_opts){.timer_tick_ns = -1}), -EINVAL);
    CHECK_EQ(weft_loop_create(&loop, &(struct weft_loop_opts){.timer_tick_ns = 2000000000}),
             -EINVAL);
    CHECK_EQ(weft_loop_create(&loop, &(struct weft_loop_opts){.driver = (enum weft_driver)9}),
             -EINVAL);
    weft_loop_destroy(NULL);
}

static void destroys_busy(void *arg)
{
    char byte;
    int ends[2];
    weft_op op;
    (void)arg;
    open_loop(WEFT_DRIVER_EPOLL);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    weft_op_init(&op, loop, NULL, NULL);
    CHECK_EQ(weft_op_read(&op, ends[0], &byte, 1, -1, 0), 0);
    weft_loop_destroy(loop);
}

TEST(destroy_of_loop_with_operations_aborts)
{
    char err[CHECK_ERR];
    int status = check_child(destroys_busy, NULL, err, sizeof err);
    CHECK(WIFSIGNALED(status));
    CHECK(strstr(err, "a loop is destroyed with 1 operations in it"));
}
