/* The Reactor: a function that is called while a descriptor is ready.
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

WEFT_END_DECLS
#endif
