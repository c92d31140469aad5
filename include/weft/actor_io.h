/* Input and output as commands of actors: the same calls as those of <weft/io.h>, <weft/net.h> and
 * <weft/file.h>, with their answers.
 *
 * Each is asked for from a step, which has 0 or -ENOMEM, and completes with its tag. A call that
 * waits has a fiber of the host's pool; when the actor ends, it is cancelled. Errors are those of
 * the call.
 */
#ifndef WEFT_ACTOR_IO_H
#define WEFT_ACTOR_IO_H

#include <weft/actor_command.h>
#include <weft/io.h>

WEFT_BEGIN_DECLS

/* Before the host's first actor: the host handles these commands. -EEXIST: it does already. -EBUSY:
 * too late. */
WEFT_API int weft_host_handle_io(weft_host *host);

/* When the descriptor is ready for one of `events` (WEFT_READABLE, WEFT_WRITABLE); completes with a
 * buffer: an int, which. */
WEFT_API int weft_out_ready(weft_out *out, uint64_t tag, int fd, int events, int64_t deadline);

/* Up to `bytes` from the descriptor, at `offset` of a file, or -1: where it is. Completes with a
 * buffer; an empty one: the end. */
WEFT_API int weft_out_read(weft_out *out, uint64_t tag, int fd, size_t bytes, int64_t offset,
                           int64_t deadline);
/* All of `buf`, which is taken, also on an error. */
WEFT_API int weft_out_write(weft_out *out, uint64_t tag, int fd, weft_buf *buf, int64_t offset,
                            int64_t deadline);

/* The next connection of a listening socket; a connection to an address as weft_connect has it,
 * which is copied. Complete with a descriptor: weft_actor_take_fd. */
WEFT_API int weft_out_accept(weft_out *out, uint64_t tag, int fd, int64_t deadline);
WEFT_API int weft_out_connect(weft_out *out, uint64_t tag, const char *address, int64_t deadline);

/* The descriptor is the caller's from now on; one that nobody takes is closed with its event.
 * -EBADF: there is none, any more. Only of an event that completes one of the two commands
 * above. */
WEFT_API int weft_actor_take_fd(const struct weft_actor_event *event);

WEFT_END_DECLS
#endif
