/* Names and groups of actors, in one host.
 *
 * A name is of one actor, until it is released or the actor ends; an actor may have several. A
 * group is any number of actors; it is there as long as somebody is in it. Names and groups are
 * found in tables of the host, each under a small lock; no call waits. All of them are for any
 * thread. A name is not empty and may have any length: it is never cut.
 */
#ifndef WEFT_NAMES_H
#define WEFT_NAMES_H

#include <weft/actor.h>

WEFT_BEGIN_DECLS

/* -EEXIST: another has the name, or this one. -ESRCH: the actor has ended. -EINVAL: it is of
 * another host or node, or the name is bad. -ENOMEM. */
WEFT_API int weft_actor_register(weft_host *host, const char *name, weft_pid pid);
/* -ENOENT. */
WEFT_API int weft_actor_unregister(weft_host *host, const char *name);
/* -ENOENT. Whoever it is may have ended by the time that the caller sends something. */
WEFT_API int weft_actor_whereis(weft_host *host, const char *name, weft_pid *out);
/* One of its names, the last it got, as snprintf. -ENOENT: it has none. -ESRCH, also of one of
 * another node. */
WEFT_API int weft_actor_name(weft_pid pid, char *buf, size_t size);

/* Joining is counted: one that has joined twice is in the group until it has left twice, or ended.
 * -ESRCH, -EINVAL, -ENOMEM. */
WEFT_API int weft_actor_group_join(weft_host *host, const char *group, weft_pid pid);
/* -ENOENT: it is not in there. */
WEFT_API int weft_actor_group_leave(weft_host *host, const char *group, weft_pid pid);
/* How many there are; the first `room` of them, each once, go to `out`, in the order in which they
 * came. */
WEFT_API size_t weft_actor_group_members(weft_host *host, const char *group, weft_pid *out,
                                         size_t room);
/* Sends each of them a message with its own view of `buf` (or NULL), which is borrowed. How many it
 * was sent to: those whose mailbox is full, or who ended meanwhile, do not count. -ENOMEM: to
 * none. */
WEFT_API int64_t weft_actor_group_publish(weft_host *host, const char *group, const char *topic,
                                          uint64_t tag, const weft_buf *buf);

WEFT_END_DECLS
#endif
