/* Changes of files and directories (inotify), waited for like any other I/O.
 *
 * A watch has any number of paths. What happens to them lies in the kernel until it is asked for,
 * in its order; each event is given to one who asks. Any fiber or thread may use a watch; those who
 * wait are *cancellable*. Not below subdirectories: add those yourself. Changes by other machines,
 * in a network file system, are not seen.
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
    int id;         /* which path, as of weft_pathwatch_add */
    uint32_t mask;  /* IN_CREATE, IN_MODIFY ...; IN_IGNORED: not watched any more, the id is free */
    uint32_t pair;  /* the same in IN_MOVED_FROM and IN_MOVED_TO of one rename; else 0 */
    char name[256]; /* in a watched directory: whose; else "" */
};

/* -EMFILE: too many watches of this user; -ENOMEM. */
WEFT_API int weft_pathwatch_open(weft_pathwatch **out);

/* Watches a path for IN_... (inotify(7)). Its id, >= 0; the same id if the path is watched already:
 * then the new mask counts. *Late*, as the calls of weft/file.h. -ENOENT, -EACCES; -ENOSPC: too
 * many paths of this user. */
WEFT_API int weft_pathwatch_add(weft_pathwatch *watch, const char *path, uint32_t mask,
                                int64_t deadline);
/* -EINVAL: no such id. Events that were there before are still given, and then one with
 * IN_IGNORED. */
WEFT_API int weft_pathwatch_remove(weft_pathwatch *watch, int id);

/* The next event. 0, -ETIMEDOUT, -ECANCELED, -EINTR; -EBADFD: closed meanwhile; -EOVERFLOW: events
 * were lost, look at everything anew; the next call goes on behind the gap. */
WEFT_API int weft_pathwatch_next(weft_pathwatch *watch, struct weft_pathwatch_event *out,
                                 int64_t deadline);

/* Who waits gets -EBADFD. NULL is fine. */
WEFT_API void weft_pathwatch_close(weft_pathwatch *watch);

WEFT_END_DECLS
#endif
