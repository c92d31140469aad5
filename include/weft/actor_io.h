/* I/O as commands of actors: the calls of <weft/io.h>, <weft/net.h> and <weft/file.h>, with the
 * same results.
 *
 * A step issues a command with one of the functions below; the completion event has the tag. Each
 * command runs on a fiber of the host's pool, which is cancelled when the actor ends. Errors are
 * those of the underlying call.
 *
 * The weft_out_* functions return 0 or -ENOMEM. Context: in a step, with its own `out`; they do not
 * wait.
 */
#ifndef WEFT_ACTOR_IO_H
#define WEFT_ACTOR_IO_H

#include <weft/actor_command.h>
#include <weft/io.h>

WEFT_BEGIN_DECLS

/* Register the handlers of these commands with the host. Call it before the host's first actor is
 * spawned.
 *
 * Returns 0; -EEXIST if they are registered already; -EBUSY if an actor was spawned already.
 * Context: any thread; does not wait. */
WEFT_API int weft_host_handle_io(weft_host *host);

/* Wait until the descriptor is ready, as weft_fd_wait. Completes with a buffer that holds an int:
 * the events.
 *
 * events: WEFT_READABLE or WEFT_WRITABLE.
 * Returns 0; -ENOMEM. Context: as above. */
WEFT_API int weft_out_ready(weft_out *out, uint64_t tag, int fd, int events, int64_t deadline);

/* Read up to `bytes` bytes. Completes with a buffer; an empty buffer is the end of the file or
 * stream.
 *
 * offset: position in the file, or -1 for the current position.
 * Returns 0; -ENOMEM. Context: as above. */
WEFT_API int weft_out_read(weft_out *out, uint64_t tag, int fd, size_t bytes, int64_t offset,
                           int64_t deadline);
/* Write all of `buf`. Completes with 0 or an error; after an error part of buf may have been
 * written.
 *
 * buf: taken, also on an error. offset: as in weft_out_read.
 * Returns 0; -ENOMEM. Context: as above. */
WEFT_API int weft_out_write(weft_out *out, uint64_t tag, int fd, weft_buf *buf, int64_t offset,
                            int64_t deadline);

/* Accept the next connection of a listening socket (weft_accept), or connect to an address
 * (weft_connect; the address is copied). Both complete with a descriptor: get it with
 * weft_actor_take_fd.
 *
 * Returns 0; -ENOMEM. Context: as above. */
WEFT_API int weft_out_accept(weft_out *out, uint64_t tag, int fd, int64_t deadline);
WEFT_API int weft_out_connect(weft_out *out, uint64_t tag, const char *address, int64_t deadline);

/* Take the descriptor out of a completion of weft_out_accept or weft_out_connect; the caller closes
 * it. A descriptor that is not taken is closed together with its event.
 *
 * Returns the descriptor; -EBADF if the event has none or it was taken before.
 * Context: the step or fiber actor that received the event; does not wait. */
WEFT_API int weft_actor_take_fd(const struct weft_actor_event *event);

WEFT_END_DECLS
#endif
