/* Operations on files and paths: they take as long as the disk takes, and no event ever reports
 * them ready.
 *
 * Data in the page cache is read at once. Other operations go to the driver's io_uring if it has
 * one, else to a thread of the blocking pool. Either way the operation is uninterruptible: the
 * fiber returns when it is finished. A deadline, a cancel or an interrupt ends the call only if the
 * operation has not begun, and then it never begins. While it runs, the operation is linked into
 * its descriptor's record, so that a close waits for it and the number is not reused.
 */
#ifndef WEFT_FDIO_FILE_OP_H
#define WEFT_FDIO_FILE_OP_H

#include "fdio/call.h"

/* Run a file operation. record: of the operation's descriptor; NULL: it has none. Returns the
 * result of the operation, however long it takes; -ETIMEDOUT, -ECANCELED, -EINTR, WEFT__CLOSED:
 * nothing was done. -EAGAIN: no thread is available. WEFT__RESUBMIT: for a read or write without an
 * offset, the number no longer is a file, and the caller must start again. */
int64_t weft__file_op_run(struct weft__fd *record, struct weft__call *call, int64_t deadline,
                          const struct weft__wait_kind *kind);

#endif
