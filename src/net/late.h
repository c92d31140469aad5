/* Calls on files and paths: they take as long as the disk takes, and nothing ever says that they
 * are ready.
 *
 * What is in the page cache is read at once. The rest goes to the ring of a driver that has one,
 * else to a thread of the blocking pool. Either way the fiber returns when the operation is over
 * (*late*): a deadline, a cancel or an interrupt ends it only if it has not begun, and then it
 * never begins. The operation is linked into its descriptor's record meanwhile, so that a close
 * waits for it and no other file gets the number.
 */
#ifndef WEFT_NET_LATE_H
#define WEFT_NET_LATE_H

#include "net/call.h"

/* The record of the operation's descriptor; NULL: it names none. The result of the operation,
 * however late; -ETIMEDOUT, -ECANCELED, -EINTR, WEFT__CLOSED: it has done nothing. -EAGAIN: no
 * thread could be had. WEFT__MOVED: of a read or write without an offset, that the number is no
 * file any more, and it is to begin anew. */
int64_t weft__late_run(struct weft__fd *record, struct weft__call *call, int64_t deadline,
                       const struct weft__wait_kind *kind);

#endif
