/* Watch files and directories for changes (inotify), and wait for the changes like for any other
 * I/O.
 *
 * A pathwatch watches any number of paths. The kernel queues the events in order until
 * weft_pathwatch_next reads them; each event is returned to one caller. Any fiber or thread may use
 * a pathwatch. Subdirectories are not watched: add them separately. Changes made by other machines
 * on a network file system are not seen.
 *
 *     weft_pathwatch_open(&watch);
 *     id = weft_pathwatch_add(watch, "/etc/app", IN_CLOSE_WRITE | IN_MOVED_TO, WEFT_FOREVER);
 *     while ((err = weft_pathwatch_next(watch, &event, WEFT_FOREVER)) == 0)
 *         if (event.id == id) reload(event.name);
 */
#ifndef WEFT_PATHWATCH_H
#define WEFT_PATHWATCH_H

#include <sys/inotify.h>

#include <weft/io.h>

WEFT_BEGIN_DECLS

typedef struct weft_pathwatch weft_pathwatch;

struct weft_pathwatch_event {
    int id;          /* the watched path, as returned by weft_pathwatch_add */
    uint32_t mask;   /* IN_CREATE, IN_MODIFY ...; IN_IGNORED: the path is no longer watched and
                       its id is free */
    uint32_t cookie; /* the inotify cookie: equal in the IN_MOVED_FROM and IN_MOVED_TO of one
                       rename; else 0 */
    char name[256];  /* the entry's name if the path is a directory; else "" */
};

/* Open a pathwatch that watches no path yet.
 *
 * Returns 0 and an owned pathwatch in *out; -EMFILE if this user has too many; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_pathwatch_open(weft_pathwatch **out);

/* Watch a path. mask: IN_... flags of inotify(7). If the path is watched already, the new mask
 * replaces the old one.
 *
 * Returns the id of the path, >= 0 (the same id for a path that is watched already); -ENOENT,
 * -EACCES; -ENOSPC if this user watches too many paths; -ETIMEDOUT, -ECANCELED, -EINTR, -EAGAIN as
 * in weft/file.h.
 * Context: a fiber or a plain thread; waits; cancellation point until the operation begins. */
WEFT_API int weft_pathwatch_add(weft_pathwatch *watch, const char *path, uint32_t mask,
                                int64_t deadline);
/* Stop watching a path. Events queued before are still returned, followed by one with IN_IGNORED.
 *
 * Returns 0; -EINVAL if there is no such id.
 * Context: any thread; does not wait. */
WEFT_API int weft_pathwatch_remove(weft_pathwatch *watch, int id);

/* Wait for the next event.
 *
 * Returns 0 and the event in *out; -ETIMEDOUT, -ECANCELED, -EINTR; -EBADFD if the pathwatch was
 * closed during the call; -EOVERFLOW if the kernel dropped events: rescan all paths; the next call
 * continues after the gap.
 * Context: a fiber or a plain thread; waits; cancellation point. */
WEFT_API int weft_pathwatch_next(weft_pathwatch *watch, struct weft_pathwatch_event *out,
                                 int64_t deadline);

/* Close a pathwatch. Calls waiting in weft_pathwatch_next return -EBADFD. NULL is allowed.
 *
 * Context: a fiber or a plain thread; may wait, as weft_close. */
WEFT_API void weft_pathwatch_close(weft_pathwatch *watch);

WEFT_END_DECLS
#endif
