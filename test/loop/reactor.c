/* Watches: level triggering, their end, and what a callback may do to other watches. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "io/drivers.h"

#define PAIRS 4

static weft_loop *loop;
static int ends[PAIRS][2];
static weft_watch *watches[PAIRS];
static int calls[PAIRS], last[PAIRS];

static void setup(enum weft_driver driver)
{
    CHECK_EQ(weft_loop_create(&loop, &(struct weft_loop_opts){.driver = driver}), 0);
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]), 0);
        calls[i] = last[i] = 0;
        watches[i] = NULL;
    }
}

static void teardown(void)
{
    for (int i = 0; i < PAIRS; i++) {
        for (int j = 0; j < 2; j++) {
            CHECK(ends[i][j] < 0 || weft_loop_close(loop, ends[i][j]) == 0);
        }
    }
    while (weft_loop_pending(loop) > 0) {
        weft_loop_turn(loop, WEFT_FOREVER);
    }
    weft_loop_destroy(loop);
}

static void shut(int i, int j)
{
    CHECK_EQ(weft_loop_close(loop, ends[i][j]), 0);
    ends[i][j] = -1;
}

static void feed(int i)
{
    CHECK_EQ(write(ends[i][1], "x", 1), 1);
}

static void eat(int i)
{
    char byte;
    CHECK_EQ(read(ends[i][0], &byte, 1), 1);
}

static int index_of(void *arg)
{
    return (int)((int(*)[2])arg - ends);
}

static void notes(weft_watch *watch, int fd, int events, void *arg)
{
    int i = index_of(arg);
    CHECK_EQ(fd >= 0, 1);
    CHECK(watch == watches[i]);
    calls[i]++;
    last[i] = events;
}

static void add(int i, int events, weft_watch_fn fn)
{
    CHECK_EQ(weft_watch_add(loop, &watches[i], ends[i][0], events, fn, ends[i]), 0);
}

static int turn(void)
{
    return weft_loop_turn(loop, 0);
}

/* For events that a driver may need several turns to report. */
static void turn_until(const int *what, int value)
{
    while (*what != value) {
        weft_loop_turn(loop, WEFT_FOREVER);
    }
}

EACH_DRIVER(watch_readiness_is_level_triggered)
{
    setup(driver);
    add(0, WEFT_READABLE, notes);
    CHECK_EQ(turn(), 0);
    feed(0);
    for (int i = 1; i <= 5; i++) {
        CHECK_EQ(turn(), 1); /* once in every turn, until the data is read */
        CHECK_EQ(calls[0], i);
        CHECK_EQ(last[0], WEFT_READABLE);
    }
    eat(0);
    turn(); /* an event that was found before may still be reported */
    int before = calls[0];
    CHECK_EQ(turn(), 0);
    CHECK_EQ(turn(), 0);
    CHECK_EQ(calls[0], before);
    feed(0);
    CHECK_EQ(weft_loop_turn(loop, WEFT_FOREVER), 1);
    CHECK_EQ(weft_watch_remove(watches[0]), 0);
    CHECK_EQ(turn(), 0);
    teardown();
}

EACH_DRIVER(watch_reports_both_directions_in_one_call)
{
    setup(driver);
    feed(0);
    add(0, WEFT_READABLE | WEFT_WRITABLE, notes);
    CHECK_EQ(turn(), 1);
    CHECK_EQ(last[0], WEFT_READABLE | WEFT_WRITABLE);
    CHECK_EQ(weft_watch_modify(watches[0], WEFT_WRITABLE), 0);
    CHECK_EQ(turn(), 1);
    CHECK_EQ(last[0], WEFT_WRITABLE);
    CHECK_EQ(weft_watch_modify(watches[0], 0), 0); /* disabled */
    CHECK_EQ(turn(), 0);
    CHECK_EQ(weft_watch_modify(watches[0], WEFT_READABLE), 0);
    CHECK_EQ(turn(), 1);
    CHECK_EQ(last[0], WEFT_READABLE);
    CHECK_EQ(weft_watch_modify(watches[0], 4), -EINVAL);
    CHECK_EQ(weft_watch_remove(watches[0]), 0);
    teardown();
}

EACH_DRIVER(peer_close_is_reported_as_readable)
{
    setup(driver);
    add(0, WEFT_READABLE, notes);
    CHECK_EQ(turn(), 0);
    shut(0, 1);
    weft_loop_turn(loop, WEFT_FOREVER);
    CHECK_EQ(last[0], WEFT_READABLE);
    CHECK_EQ(weft_watch_modify(watches[0], WEFT_WRITABLE), 0);
    last[0] = 0;
    weft_loop_turn(loop, WEFT_FOREVER);
    CHECK_EQ(last[0], WEFT_WRITABLE);
    CHECK_EQ(weft_watch_remove(watches[0]), 0);
    teardown();
}

static int ended;

static void told(weft_watch *watch, int fd, int events, void *arg)
{
    notes(watch, fd, events, arg);
    if (events < 0) {
        ended++;
        CHECK_EQ(weft_watch_remove(watch), -ENOENT);
        CHECK_EQ(weft_watch_cancel(watch), -ENOENT);
        CHECK_EQ(weft_watch_modify(watch, WEFT_READABLE), -ENOENT);
    }
}

EACH_DRIVER(watch_cancel_is_reported_and_remove_is_not)
{
    setup(driver);
    ended = 0;
    add(0, WEFT_READABLE, told);
    add(1, WEFT_READABLE, told);
    add(2, WEFT_WRITABLE, told);
    weft_watch *second, *found = watches[2];
    CHECK_EQ(weft_watch_add(loop, &second, ends[2][0], WEFT_READABLE, told, ends[2]), 0);
    CHECK_EQ(turn(), 1);
    CHECK_EQ(weft_loop_pending(loop), 4);
    CHECK_EQ(weft_watch_cancel(watches[0]), 0);
    CHECK_EQ(weft_watch_cancel(watches[0]), -ENOENT);
    CHECK_EQ(weft_watch_modify(watches[0], WEFT_WRITABLE), -ENOENT);
    CHECK_EQ(weft_watch_remove(watches[1]), 0);
    CHECK_EQ(ended, 0); /* never inside the call */
    turn_until(&ended, 1);
    CHECK_EQ(last[0], -ECANCELED);
    CHECK_EQ(calls[1], 0);
    CHECK_EQ(weft_watch_cancel_all(loop, ends[0][0]), -ENOENT);
    CHECK_EQ(weft_watch_remove(second), 0);
    CHECK_EQ(weft_watch_cancel_all(loop, ends[2][0]), 1);
    turn_until(&ended, 2);
    CHECK(watches[2] == found);
    CHECK_EQ(last[2], -ECANCELED);
    add(0, WEFT_READABLE, told);
    add(1, WEFT_READABLE, told);
    CHECK_EQ(weft_watch_cancel_all(loop, -1), 2);
    CHECK_EQ(weft_watch_remove(watches[0]), 0); /* cancelled, not reported yet: removed silently */
    turn_until(&ended, 3);
    CHECK_EQ(last[1], -ECANCELED);
    CHECK_EQ(weft_loop_pending(loop), 0);
    teardown();
}

/* Each callback removes all other watches, and one also itself: the first to be called is the only
 * one. */
static void removes_others(weft_watch *watch, int fd, int events, void *arg)
{
    (void)fd, (void)arg;
    CHECK(events > 0);
    for (int i = 0; i < PAIRS; i++) {
        calls[i] += watches[i] == watch;
        if (watches[i] != watch) {
            CHECK_EQ(weft_watch_remove(watches[i]), 0);
        }
    }
    CHECK_EQ(weft_watch_remove(watch), 0);
}

EACH_DRIVER(watch_callback_can_remove_itself_and_others)
{
    setup(driver);
    for (int i = 0; i < PAIRS; i++) {
        feed(i);
        add(i, WEFT_READABLE, removes_others);
    }
    CHECK_EQ(turn(), 1);
    CHECK_EQ(calls[0] + calls[1] + calls[2] + calls[3], 1);
    CHECK_EQ(weft_loop_pending(loop), 0);
    CHECK_EQ(turn(), 0);
    teardown();
}

static void closes_itself(weft_watch *watch, int fd, int events, void *arg)
{
    notes(watch, fd, events, arg);
    if (events > 0) {
        shut(index_of(arg), 0);
    } else {
        ended++;
    }
}

EACH_DRIVER(watch_callback_can_close_its_fd)
{
    setup(driver);
    ended = 0;
    feed(0);
    add(0, WEFT_READABLE, closes_itself);
    CHECK_EQ(turn(), 1);
    turn_until(&ended, 1);
    CHECK_EQ(calls[0], 2);
    CHECK_EQ(last[0], -EBADFD);
    CHECK_EQ(weft_loop_pending(loop), 0);
    char byte;
    CHECK_EQ(recv(ends[0][1], &byte, 1, MSG_DONTWAIT), -1); /* it really is closed: not EAGAIN */
    CHECK_EQ(errno, ECONNRESET);
    teardown();
}

/* Both are ready in one turn; the first callback closes the other's descriptor and reuses its
 * number. */
static int reused[2] = {-1, -1};
static bool completes;

static void reuses(weft_watch *watch, int fd, int events, void *arg)
{
    int i = index_of(arg), other = 1 - i;
    notes(watch, fd, events, arg);
    if (events < 0) {
        CHECK_EQ(events, -EBADFD);
        ended++;
        return;
    }
    if (reused[0] < 0) {
        int number = ends[other][0];
        shut(other, 0);
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, reused), 0);
        CHECK(completes || reused[0] == number); /* otherwise it is closed a little later */
        CHECK_EQ(weft_watch_add(loop, &watches[2], reused[0], WEFT_READABLE, notes, ends[2]), 0);
        eat(i);
    }
}

EACH_DRIVER(fd_reused_in_same_turn_is_not_reported)
{
    setup(driver);
    completes = driver == WEFT_DRIVER_URING;
    ended = 0;
    reused[0] = reused[1] = -1;
    feed(0);
    feed(1);
    add(0, WEFT_READABLE, reuses);
    add(1, WEFT_READABLE, reuses);
    turn();
    turn_until(&ended, 1);
    CHECK_EQ(calls[0] + calls[1], 2); /* one was ready, one got the close */
    CHECK_EQ(calls[2], 0);            /* the new descriptor was not the ready one */
    turn();
    turn();
    CHECK_EQ(calls[2], 0);
    CHECK_EQ(write(reused[1], "x", 1), 1);
    turn_until(&calls[2], 1);
    CHECK_EQ(weft_loop_close(loop, reused[0]), 0);
    CHECK_EQ(weft_loop_close(loop, reused[1]), 0);
    teardown();
}

/* A watch that is always ready and a post that always recurs starve no other callback. */
static void always(weft_watch *watch, int fd, int events, void *arg)
{
    (void)watch, (void)fd, (void)events;
    calls[index_of(arg)]++;
}

EACH_DRIVER(busy_watch_starves_no_other_watch)
{
    setup(driver);
    for (int i = 0; i < PAIRS - 1; i++) {
        add(i, WEFT_WRITABLE, always);
    }
    add(3, WEFT_READABLE, notes);
    for (int i = 0; i < 100; i++) {
        turn();
    }
    for (int i = 0; i < PAIRS - 1; i++) {
        CHECK_EQ(calls[i], 100); /* each once in each turn */
    }
    feed(3);
    turn();
    turn();
    CHECK(calls[3] >= 1);
    teardown();
}

static void *closes(void *arg)
{
    CHECK_EQ(weft_close(*(int *)arg), 0);
    return NULL;
}

EACH_DRIVER(close_by_other_thread_ends_watch)
{
    pthread_t thread;
    setup(driver);
    ended = 0;
    add(0, WEFT_READABLE, told);
    CHECK_EQ(turn(), 0);
    CHECK_EQ(pthread_create(&thread, NULL, closes, &ends[0][0]), 0);
    turn_until(&ended, 1);
    CHECK_EQ(last[0], -EBADFD);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    ends[0][0] = -1;
    teardown();
}

/* A disabled watch waits for nothing, but the close ends it too. */
EACH_DRIVER(close_ends_disabled_watches)
{
    setup(driver);
    ended = 0;
    add(0, WEFT_READABLE, told);
    add(1, WEFT_READABLE, told);
    CHECK_EQ(turn(), 0);
    CHECK_EQ(weft_watch_modify(watches[0], 0), 0);
    CHECK_EQ(weft_watch_modify(watches[1], 0), 0);
    feed(0);
    feed(1); /* its earlier wait has no effect */
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(turn(), 0);
    }
    shut(0, 0);
    turn_until(&ended, 1);
    CHECK_EQ(last[0], -EBADFD);
    CHECK_EQ(weft_watch_modify(watches[1], WEFT_READABLE), 0);
    turn_until(&calls[1], 1);
    CHECK_EQ(last[1], WEFT_READABLE); /* it was disabled, and works again */
    CHECK_EQ(weft_watch_modify(watches[1], 0), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(turn(), 0);
    }
    CHECK_EQ(weft_close(ends[1][0]), 0); /* not the loop's */
    ends[1][0] = -1;
    CHECK_EQ(weft_watch_modify(watches[1], WEFT_READABLE), 0);
    turn_until(&ended, 2);
    CHECK_EQ(last[1], -EBADFD);
    CHECK_EQ(weft_loop_pending(loop), 0);
    teardown();
}

/* The memory of a watch whose close was not reported yet. Leak checkers detect it. */
EACH_DRIVER(loop_can_be_destroyed_before_close_is_reported)
{
    setup(driver);
    for (int i = 0; i < PAIRS; i++) {
        add(i, WEFT_READABLE, notes);
    }
    CHECK_EQ(turn(), 0);
    for (int i = 0; i < PAIRS; i++) {
        shut(i, 0);
    }
    CHECK_EQ(weft_watch_remove(watches[1]), 0);
    weft_loop_destroy(loop);
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(weft_close(ends[i][1]), 0);
        watches[i] = NULL;
    }
    loop = NULL;
}

EACH_DRIVER(three_hundred_watches_all_report)
{
    enum { MANY = 300 };
    static weft_watch *many[MANY];
    static int pipes[MANY][2];
    setup(driver);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(pipe2(pipes[i], O_CLOEXEC), 0);
        CHECK_EQ(weft_watch_add(loop, &many[i], pipes[i][0], WEFT_READABLE, always, ends[0]), 0);
    }
    CHECK_EQ(turn(), 0);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(write(pipes[i][1], "x", 1), 1);
    }
    while (calls[0] < 3 * MANY) {
        weft_loop_turn(loop, WEFT_FOREVER);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_watch_remove(many[i]), 0);
        CHECK_EQ(weft_loop_close(loop, pipes[i][0]), 0);
        CHECK_EQ(weft_loop_close(loop, pipes[i][1]), 0);
    }
    teardown();
}

TEST(unwatchable_fd_or_events_are_rejected)
{
    weft_watch *watch;
    setup(WEFT_DRIVER_EPOLL);
    char name[] = "/tmp/weft-watch-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0);
    unlink(name);
    CHECK_EQ(weft_watch_add(loop, &watch, file, WEFT_READABLE, notes, NULL), -EPERM);
    CHECK_EQ(weft_watch_add(loop, &watch, ends[0][0], 0, notes, NULL), -EINVAL);
    CHECK_EQ(weft_watch_add(loop, &watch, ends[0][0], 8, notes, NULL), -EINVAL);
    CHECK_EQ(weft_watch_add(loop, &watch, -1, WEFT_READABLE, notes, NULL), -EBADF);
    CHECK_EQ(weft_watch_add(loop, &watch, 999, WEFT_READABLE, notes, NULL), -EBADF);
    CHECK_EQ(weft_loop_close(loop, 999), -EBADF);
    CHECK_EQ(weft_loop_close(loop, file), 0);
    weft_loop *other;
    CHECK_EQ(weft_loop_create(&other, &(struct weft_loop_opts){.driver = WEFT_DRIVER_POLL}), 0);
    CHECK_EQ(weft_watch_add(loop, &watch, ends[0][0], WEFT_READABLE, notes, ends[0]), 0);
    CHECK_EQ(weft_watch_add(other, &watches[1], ends[0][0], WEFT_READABLE, notes, NULL), -EBUSY);
    CHECK_EQ(weft_loop_close(other, ends[0][0]), -EBUSY);
    CHECK_EQ(weft_watch_remove(watch), 0);
    CHECK_EQ(weft_fd_release(ends[0][0]), 0); /* from now on any code may use it */
    CHECK_EQ(weft_watch_add(other, &watches[1], ends[0][0], WEFT_READABLE, notes, NULL), 0);
    CHECK_EQ(weft_watch_remove(watches[1]), 0);
    CHECK_EQ(weft_fd_release(ends[0][0]), 0);
    weft_loop_destroy(other);
    teardown();
}
