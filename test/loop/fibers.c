/* Fibers of a pool use the descriptors of a loop: the loop's thread wakes them, although a loop
 * knows no fibers. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/drivers.h"

#define READERS 20 /* more than a loop wakes at once */

static weft_loop *loop;
static weft_pool *pool;
static int ends[2];
static weft_fiber fibers[READERS];

static void setup(enum weft_driver driver)
{
    CHECK_EQ(weft_loop_create(&loop, &(struct weft_loop_opts){.driver = driver}), 0);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1, .driver = driver}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
}

static void teardown(void)
{
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    weft_loop_destroy(loop);
    close(ends[1]);
}

static void ignore(weft_watch *watch, int fd, int events, void *arg)
{
    (void)watch, (void)fd, (void)events, (void)arg;
}

static _Atomic(int) reading;

static void *read_byte(void *arg)
{
    char byte;
    CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), 1);
    reading--;
    return arg;
}

static void await_readers(void)
{
    enum weft_fiber_state state;
    for (int i = 0; i < READERS; i++) {
        do {
            CHECK_EQ(weft_fiber_state(fibers[i], &state), 0);
        } while (state != WEFT_FIBER_WAITING);
    }
}

EACH_DRIVER(fibers_that_read_a_descriptor_of_a_loop_are_woken)
{
    weft_watch *watch;
    setup(driver);
    reading = READERS;
    CHECK_EQ(weft_watch_add(loop, &watch, ends[0], WEFT_WRITABLE, ignore, NULL), 0);
    CHECK_EQ(weft_watch_modify(watch, 0), 0);
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], read_byte, NULL, NULL), 0);
    }
    await_readers();
    CHECK_EQ(write(ends[1], "01234567890123456789", READERS), READERS);
    while (reading > 0) {
        weft_loop_turn(loop, weft_after(1000000));
    }
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_watch_remove(watch), 0);
    close(ends[0]);
    teardown();
}

static int64_t ended;

static void op_ended(weft_op *op, int64_t result, void *arg)
{
    (void)op, (void)arg;
    ended = result;
}

static void *close_it(void *arg)
{
    CHECK_EQ(weft_close(ends[0]), 0);
    return arg;
}

EACH_DRIVER(fiber_closes_a_descriptor_with_an_operation_of_a_loop)
{
    weft_op op;
    char byte;
    setup(driver);
    ended = 0;
    weft_op_init(&op, loop, op_ended, NULL);
    CHECK_EQ(weft_op_read(&op, ends[0], &byte, 1, -1, 0), 0);
    weft_loop_turn(loop, weft_after(1000000)); /* the driver has it */
    CHECK_EQ(weft_pool_spawn(pool, &fibers[0], close_it, NULL, NULL), 0);
    while (!ended) {
        weft_loop_turn(loop, WEFT_FOREVER);
    }
    CHECK_EQ(ended, -EBADFD);
    CHECK_EQ(weft_join(fibers[0], NULL, WEFT_FOREVER), 0);
    teardown();
}
