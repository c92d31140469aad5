/* The reactor: call a function while a descriptor is ready.
 *
 * On a loop (weft_watch_*) the callback runs on the loop's thread and must not wait. On a pool
 * (weft_pool_watch_*, at the end) it runs in a fiber and may wait. The following is about loops.
 *
 * Watches are level-triggered with every driver: as long as the descriptor is ready for an event
 * that the watch wants, the callback is called once in every turn of the loop (weft/loop.h). The
 * callback need not read or write everything that is available.
 *
 * A callback may remove, cancel or modify any watch, including its own, and close any descriptor: a
 * removed watch is not called again, even if it was found ready in the same turn, and a new watch
 * is not called for the readiness of a closed descriptor that had the same number.
 */
#ifndef WEFT_REACTOR_H
#define WEFT_REACTOR_H

#include <weft/io.h>
#include <weft/loop.h>

WEFT_BEGIN_DECLS

typedef struct weft_watch
    weft_watch; /* owned by the loop: valid from add until remove or the last callback */

/* The callback of a watch. `events`: those of WEFT_READABLE and WEFT_WRITABLE that the watch wants
 * and the descriptor is ready for (end of file and errors count as both); or the reason why the
 * watch has ended, which makes this its last call:
 *   -ECANCELED   weft_watch_cancel, weft_watch_cancel_all
 *   -EBADFD      the descriptor was closed; a paused watch learns of a close by another thread only
 *                when it is modified
 * or another error of waiting for readiness (-ENOMEM, -ENOSPC). */
typedef void (*weft_watch_fn)(weft_watch *watch, int fd, int events, void *arg);

/* Add a watch. A descriptor may have several. events: WEFT_READABLE, WEFT_WRITABLE or both.
 *
 * Returns 0 and the watch in *out; -EINVAL for no events or other ones; -EBADF; -EPERM for files
 * and directories, which have no readiness; -EBUSY if another loop or a pool uses the descriptor;
 * -ENOMEM.
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_watch_add(weft_watch **out, weft_loop *loop, int fd, int events, weft_watch_fn fn,
                            void *arg);
/* Change the events that a watch wants. With no events the watch is paused.
 *
 * Returns 0; -EINVAL for other events; -ENOENT if the watch has ended (its last call is due or
 * running).
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_watch_modify(weft_watch *watch, int events);
/* Remove a watch without a last call.
 *
 * Returns 0; -ENOENT if its last call is running.
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_watch_remove(weft_watch *watch);
/* Cancel a watch: its callback is called a last time, with -ECANCELED, in a later turn.
 *
 * Returns 0; -ENOENT if the watch has ended (its last call is due or running).
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_watch_cancel(weft_watch *watch);
/* Cancel all watches on a descriptor, or with fd -1 all watches of the loop.
 *
 * Returns the number of watches that were cancelled; -ENOENT if there was none.
 * Context: the loop's thread; does not wait. */
WEFT_API int weft_watch_cancel_all(weft_loop *loop, int fd);

/* --- watches on a pool --------------------------------------------------------------------------
 *
 * A watch on a pool calls a function in a fiber of that pool whenever a descriptor is ready. The
 * pool, the descriptor and the event name the watch: there is at most one watch for the three.
 *
 * Readiness is a level. The callback is called again as long as the descriptor is ready, never
 * twice at once for the same watch; other fibers of the pool run in between. A callback that wants
 * one event only removes its watch.
 *
 * A watch is a waiting fiber. A draining stop of the pool waits for it; a cancelling stop ends it
 * with -ECANCELED.
 */

/* The callback of a watch on a pool. `event` is the event of the watch, or a negative errno that
 * says why the watch has ended: this is then the last call.
 *   -ECANCELED   weft_pool_watch_cancel, weft_pool_watch_cancel_all, or a stop of the pool
 *   -EBADFD      the descriptor was closed or released
 * Other errors are those of weft_fd_wait. */
typedef void (*weft_pool_watch_fn)(int fd, int event, void *arg);

/* Call fn(fd, event, arg) in a fiber of the pool while the descriptor is ready for `event`,
 * WEFT_READABLE or WEFT_WRITABLE.
 *
 * Returns 0; -EEXIST if the pool has a watch for this event of the descriptor; -EINVAL if `event`
 * is neither or both, or the pool belongs to a dispatcher; -EBADF; -EPERM for files and
 * directories, which have no readiness; -EOPNOTSUPP for a compute pool; -ENOMEM, -EAGAIN,
 * -ESHUTDOWN as weft_pool_spawn.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_watch_add(weft_pool *pool, int fd, int event, weft_pool_watch_fn fn,
                                 void *arg);
/* Remove a watch without a last call.
 *
 * Returns 0 if the callback is not running and will not be called again; -EINPROGRESS if the
 * callback is running (perhaps as the caller) and will not be called again after that; -ENOENT if
 * there is no such watch, or it has ended already.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_watch_remove(weft_pool *pool, int fd, int event);
/* Cancel a watch: the callback is called a last time, with -ECANCELED.
 *
 * Returns 0; -ENOENT if there is no such watch, or it has ended already.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_watch_cancel(weft_pool *pool, int fd, int event);
/* Cancel both watches of a descriptor, or with fd -1 all watches of the pool, as
 * weft_pool_watch_cancel does.
 *
 * Returns the number of watches that were cancelled; -ENOENT if there was none.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_watch_cancel_all(weft_pool *pool, int fd);

WEFT_END_DECLS
#endif
