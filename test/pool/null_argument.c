/* Passing NULL for a required object aborts the program with a message that names the call and the
 * argument. */
/* labels: valgrind */
#include <weft/actor.h>
#include <weft/actor_io.h>
#include <weft/blocking.h>
#include <weft/buf.h>
#include <weft/connpool.h>
#include <weft/dispatcher.h>
#include <weft/fiber.h>
#include <weft/funcpool.h>
#include <weft/http.h>
#include <weft/loop.h>
#include <weft/process.h>
#include <weft/stream.h>
#include <weft/timer.h>

#include "sync/fixture.h"

#define CALL(name, call)                                                                           \
    static void name(void *arg)                                                                    \
    {                                                                                              \
        (void)arg;                                                                                 \
        (void)(call);                                                                              \
    }

/* clang-format off */
#define CALLS(X)                                                                                   \
    X(weft_mutex_lock, "mutex", weft_mutex_lock(NULL, WEFT_FOREVER))                               \
    X(weft_mutex_unlock, "mutex", (weft_mutex_unlock(NULL), 0))                                    \
    X(weft_cond_wait, "cond", weft_cond_wait(NULL, NULL, WEFT_FOREVER))                            \
    X(weft_cond_signal, "cond", (weft_cond_signal(NULL), 0))                                       \
    X(weft_event_set, "event", (weft_event_set(NULL), 0))                                          \
    X(weft_event_wait, "event", weft_event_wait(NULL, WEFT_FOREVER))                               \
    X(weft_sem_acquire, "sem", weft_sem_acquire(NULL, 1, WEFT_FOREVER))                            \
    X(weft_rwlock_read, "lock", weft_rwlock_read(NULL, WEFT_FOREVER))                  \
    X(weft_rwlock_write, "lock", weft_rwlock_write(NULL, WEFT_FOREVER))                \
    X(weft_frame_await_mutex, "mutex", weft_frame_await_mutex(NULL, NULL, NULL, 0, NULL))          \
    X(weft_frame_await_rwlock_read, "lock", weft_frame_await_rwlock_read(NULL, NULL, NULL, 0, NULL)) \
    X(weft_frame_await_rwlock_write, "lock", weft_frame_await_rwlock_write(NULL, NULL, NULL, 0, NULL)) \
    X(weft_barrier_wait, "barrier", weft_barrier_wait(NULL, WEFT_FOREVER))                         \
    X(weft_waitgroup_add, "group", (weft_waitgroup_add(NULL, 1), 0))                               \
    X(weft_waitgroup_wait, "group", weft_waitgroup_wait(NULL, WEFT_FOREVER))                       \
    X(weft_chan_send, "chan", weft_chan_send(NULL, "x", WEFT_FOREVER))                             \
    X(weft_chan_recv, "chan", weft_chan_recv(NULL, arg, WEFT_FOREVER))                             \
    X(weft_chan_close, "chan", (weft_chan_close(NULL), 0))                                         \
    X(weft_future_wait, "future", weft_future_wait(NULL, WEFT_FOREVER))                      \
    X(weft_scope_close, "scope", weft_scope_close(NULL, WEFT_FOREVER))                                           \
    X(weft_scope_spawn, "scope", weft_scope_spawn(NULL, NULL, NULL, NULL, NULL))                   \
    X(weft_pool_start, "pool", weft_pool_start(NULL))                                              \
    X(weft_pool_stop, "pool", weft_pool_stop(NULL, WEFT_STOP_DRAIN, WEFT_FOREVER))                 \
    X(weft_pool_spawn, "pool", weft_pool_spawn(NULL, NULL, NULL, NULL, NULL))                      \
    X(weft_pool_watch_add, "pool", weft_pool_watch_add(NULL, 0, WEFT_READABLE, NULL, NULL))        \
    X(weft_pool_watch_cancel_all, "pool", weft_pool_watch_cancel_all(NULL, -1))                    \
    X(weft_pool_name, "pool", weft_pool_name(NULL))                                                \
    X(weft_dispatcher_start, "dispatcher", weft_dispatcher_start(NULL))                                     \
    X(weft_timer_cancel, "timer", weft_timer_cancel(NULL))                                         \
    X(weft_blocking_stop, "pool", weft_blocking_stop(NULL, WEFT_FOREVER))                          \
    X(weft_process_wait, "process", weft_process_wait(NULL, NULL, WEFT_FOREVER))                   \
    X(weft_signal_wait, "set", weft_signal_wait(NULL, NULL, WEFT_FOREVER))                         \
    X(weft_host_stop, "host", weft_host_stop(NULL, NULL, WEFT_FOREVER))                            \
    X(weft_host_name, "host", weft_host_name(NULL))                                                \
    X(weft_buf_share, "buf", weft_buf_share(NULL))                                                 \
    X(weft_buf_put, "buf", weft_buf_put(NULL, 1))                                                  \
    X(weft_bufs_append, "chain", (weft_bufs_append(NULL, NULL), 0))                                \
    X(weft_bufs_iovec, "chain", weft_bufs_iovec(NULL, NULL, 1))                                    \
    X(weft_http_server_route, "server", weft_http_server_route(NULL, "GET", "/", NULL, NULL, NULL)) \
    X(weft_http_server_stop, "server", weft_http_server_stop(NULL, WEFT_FOREVER))                  \
    X(weft_http_respond, "req", weft_http_respond(NULL, 200, "text/plain", "", 0))                     \
    X(weft_http_get_header, "req", weft_http_get_header(NULL, "Host").len)                         \
    X(weft_migration_enter, "migration", weft_migration_enter(NULL, NULL, WEFT_ANY_WORKER))        \
    X(weft_fiber_unpark_on, "pool", weft_fiber_unpark_on(WEFT_NO_FIBER, NULL, WEFT_ANY_WORKER))    \
    X(weft_fiber_submit, "pool", weft_fiber_submit(WEFT_NO_FIBER, NULL, WEFT_ANY_WORKER))          \
    X(weft_connpool_fill, "pool", weft_connpool_fill(NULL, WEFT_FOREVER))                          \
    X(weft_outbox_close, "outbox", (weft_outbox_close(NULL), 0))                                   \
    X(weft_loop_close, "loop", weft_loop_close(NULL, -1))                                          \
    X(weft_signal_has, "set", weft_signal_has(NULL, 1))                                            \
    X(weft_bufs_prepend, "buf", (weft_bufs_prepend(&(weft_bufs){0}, NULL), 0))                     \
    X(weft_bufs_join, "from", (weft_bufs_join(&(weft_bufs){0}, NULL), 0))                          \
    X(weft_funcpool_create, "opts", weft_funcpool_create(arg, NULL, NULL, NULL))                   \
    X(weft_out_write, "buf", weft_out_write(NULL, 0, -1, NULL, -1, WEFT_FOREVER))                  \
    X(weft_out_connect, "address", weft_out_connect(NULL, 0, NULL, WEFT_FOREVER))
/* clang-format on */

#define DEFINE(name, object, call) CALL(call_##name, call)
CALLS(DEFINE)
CALL(append_null, (weft_bufs_append(&(weft_bufs){0}, NULL), 0))
CALL(enter_null_pool, weft_migration_enter(&(struct weft_migration){0}, NULL, WEFT_ANY_WORKER))

TEST(null_object_aborts_with_call_and_object_name)
{
    static const struct {
        void (*fn)(void *);
        const char *text;
    } calls[] = {
#define ROW(name, object, call) {call_##name, #name ": " object " is NULL: it must be created"},
        CALLS(ROW) /* and second arguments of the calls above */
        {append_null, "weft_bufs_append: buf is NULL: it must be created"},
        {enter_null_pool, "weft_migration_enter: pool is NULL: it must be created"},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        must_stop(calls[i].fn, NULL, calls[i].text);
    }
}

/* Destroying NULL is not an error. */
TEST(destroy_of_null_is_accepted)
{
    weft_pool_destroy(NULL);
    weft_chan_destroy(NULL);
    weft_future_unref(NULL);
    weft_dispatcher_destroy(NULL);
    weft_host_destroy(NULL);
    weft_process_close(NULL);
    weft_signal_close(NULL);
}
