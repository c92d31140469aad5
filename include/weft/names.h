/* Registered names and groups of actors, per host.
 *
 * A name belongs to one actor, until it is unregistered or the actor ends; an actor may have
 * several names. A group is a set of actors; it exists while it has members. Names and groups are
 * kept in hash tables of the host, each under a short lock. A name is not empty and may have any
 * length: it is never truncated.
 */
#ifndef WEFT_NAMES_H
#define WEFT_NAMES_H

#include <weft/actor.h>

WEFT_BEGIN_DECLS

/* Register a name for an actor of this host. The name is copied.
 *
 * Returns 0; -EEXIST if the name is taken, by this actor or by another one; -ESRCH if the actor has
 * ended; -EINVAL if the actor belongs to another host or node, or the name is empty; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_actor_register(weft_host *host, const char *name, weft_pid pid);
/* Unregister a name, whichever actor has it.
 *
 * Returns 0; -ENOENT if no running actor has the name.
 * Context: any thread; does not wait. */
WEFT_API int weft_actor_unregister(weft_host *host, const char *name);
/* Look up the actor that has a name.
 *
 * Returns 0 and the PID in *out; -ENOENT if no running actor has the name. The actor may have ended
 * by the time the caller sends to it: a send then returns -ESRCH.
 * Context: any thread; does not wait. */
WEFT_API int weft_actor_whereis(weft_host *host, const char *name, weft_pid *out);
/* Write one of the actor's names, the one registered last, into `buf`.
 *
 * Returns the length of the name, as snprintf does; -ENOENT if the actor has no name; -ESRCH if it
 * has ended or is on another node.
 * Context: any thread; does not wait. */
WEFT_API int weft_actor_name(weft_pid pid, char *buf, size_t size);

/* Add an actor of this host to a group, which is created if it does not exist. Joins are counted:
 * an actor that has joined twice is a member until it has left twice, or ended.
 *
 * Returns 0; -ESRCH if the actor has ended; -EINVAL if the actor belongs to another host or node,
 * or the name of the group is empty; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_actor_group_join(weft_host *host, const char *group, weft_pid pid);
/* Undo one join of an actor.
 *
 * Returns 0; -ENOENT if the actor is not a member.
 * Context: any thread; does not wait. */
WEFT_API int weft_actor_group_leave(weft_host *host, const char *group, weft_pid pid);
/* List the members of a group, each once, in the order in which they joined.
 *
 * Returns the number of members; the PIDs of the first `capacity` of them are written to `out`.
 * Context: any thread; does not wait. */
WEFT_API size_t weft_actor_group_members(weft_host *host, const char *group, weft_pid *out,
                                         size_t capacity);
/* Send every member of a group a message with its own view of `buf`, which is borrowed and may be
 * NULL. `topic` as in weft_actor_send.
 *
 * Returns the number of members the message was sent to: a member whose mailbox refused it, or
 * which ended meanwhile, does not count, nor does one for whose view there was no memory; -ENOMEM
 * if the list of members could not be made, and then nothing was sent.
 * Context: any thread; sends as weft_actor_send does, so a fiber waits for capacity in a mailbox
 * with WEFT_MAILBOX_WAIT; steps and plain threads do not wait. */
WEFT_API int64_t weft_actor_group_publish(weft_host *host, const char *group, const char *topic,
                                          uint64_t tag, const weft_buf *buf);

WEFT_END_DECLS
#endif
