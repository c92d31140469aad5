/* I/O as commands of actors: the handlers of weft_out_ready, weft_out_read, weft_out_write,
 * weft_out_accept and weft_out_connect (<weft/actor_out.h>), and the descriptors they deliver. */
#ifndef WEFT_ACTOR_IO_H
#define WEFT_ACTOR_IO_H

#include <weft/actor_out.h>

WEFT_BEGIN_DECLS

/* Register the handlers of these commands with the host. Call it before the host's first actor is
 * spawned.
 *
 * Returns 0; -EEXIST if they are registered already; -EBUSY if an actor was spawned already.
 * Context: any thread; does not wait. */
WEFT_API int weft_host_handle_io(weft_host *host);

/* Take the descriptor out of a completion of weft_out_accept or weft_out_connect; the caller closes
 * it. A descriptor that is not taken is closed together with its event.
 *
 * Returns the descriptor; -EBADF if the event has none or it was taken before.
 * Context: the step or fiber actor that received the event; does not wait. */
WEFT_API int weft_actor_take_fd(const struct weft_actor_event *event);

WEFT_END_DECLS
#endif
