/* The Reactor: a function that is called while a descriptor is ready.
 *
 * On a loop (weft_watch_*) the callback runs on the loop's thread and must not wait. On a pool
 * (weft_pool_watch_*, at the end) it runs in a fiber and may wait. The following is about loops.
 *
 * Readiness is a level, on every driver: as long as the descriptor is ready for something that the
 * watch wants, the callback is called once in every turn of the loop (weft/loop.h). It need not
 * read or write all there is.
 *
 * A callback may remove, cancel or modify any watch, its own too, and close any descriptor: a watch
 * that is removed is not called again, even if it was found ready in the same turn, and one that is
 * added is not called for what a descriptor with the same number was ready for.
 *
 * All calls are the loop's thread's.
 */
#ifndef WEFT_REACTOR_H
#define WEFT_REACTOR_H

#include <weft/io.h>
#include <weft/loop.h>

WEFT_BEGIN_DECLS

typedef struct weft_watch
    weft_watch; /* the loop's memory: valid from add until remove, or until the end was told */

/* `events`: those of WEFT_READABLE and WEFT_WRITABLE that the watch wants and that are there (an
 * end or an error of the descriptor counts as both), or the end of the watch, after which it is
 * gone:
 *   -ECANCELED   weft_watch_cancel, weft_watch_cancel_all
 *   -EBADFD      the descriptor was closed; a watch that rests is told of a close by another thread
 *                when it is modified
 * or another error of waiting for it (-ENOMEM, -ENOSPC). */
typedef void (*weft_watch_fn)(weft_watch *watch, int fd, int events, void *arg);

/* Several watches may be on one descriptor. -EINVAL: no events, or others; -EBADF; -EPERM: a file
 * or a directory, which have no readiness; -EBUSY: another loop or a pool uses it; -ENOMEM. */
WEFT_API int weft_watch_add(weft_watch **out, weft_loop *loop, int fd, int events, weft_watch_fn fn,
                            void *arg);
/* Wants these from now on; no events: rests. -EINVAL; -ENOENT: its end is about to be told, or is
 * being told. */
WEFT_API int weft_watch_modify(weft_watch *watch, int events);
/* Forgets the watch without a word. -ENOENT: its end is being told. */
WEFT_API int weft_watch_remove(weft_watch *watch);
/* Ends it: the callback is told -ECANCELED in a later turn. -ENOENT: its end is about to be told,
 * or is being told. */
WEFT_API int weft_watch_cancel(weft_watch *watch);
/* The same for all watches on a descriptor; -1: all of the loop. How many; -ENOENT: there was
 * none. */
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

/* `event` is the event of the watch, or a negative errno that says why the watch has ended: this is
 * then the last call.
 *   -ECANCELED   weft_pool_watch_cancel, weft_pool_watch_cancel_all, or a stop of the pool
 *   -EBADFD      the descriptor was closed or released
 * Other errors are those of weft_fd_wait. */
typedef void (*weft_pool_watch_fn)(int fd, int event, void *arg);

/* Calls fn(fd, event, arg) in a fiber of the pool while the descriptor is ready for `event`,
 * WEFT_READABLE or WEFT_WRITABLE.
 *
 * Returns 0; -EEXIST if the pool has a watch for this event of the descriptor; -EINVAL if `event`
 * is neither or both, or the pool belongs to a dispatcher; -EBADF; -EPERM for files and
 * directories, which have no readiness; -EOPNOTSUPP for a compute pool; -ENOMEM, -EAGAIN,
 * -ESHUTDOWN as weft_pool_spawn.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_watch_add(weft_pool *pool, int fd, int event, weft_pool_watch_fn fn,
                                 void *arg);
/* Removes a watch without a last call.
 *
 * Returns 0: the callback does not run and will not be called again; or -EINPROGRESS: the callback
 * runs, or the caller is that callback, and it will not be called again; -ENOENT: there is no such
 * watch, or it has ended already.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_watch_remove(weft_pool *pool, int fd, int event);
/* Ends a watch: the callback is called a last time, with -ECANCELED.
 *
 * Returns 0; -ENOENT: there is no such watch, or it has ended already.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_watch_cancel(weft_pool *pool, int fd, int event);
/* Ends, as weft_pool_watch_cancel, both watches of a descriptor, or with fd -1 all of the pool.
 *
 * Returns the number of watches that were ended; -ENOENT if there was none.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_watch_cancel_all(weft_pool *pool, int fd);

WEFT_END_DECLS
#endif
