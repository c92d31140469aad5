/* Calls: the internal interface. */
#ifndef WEFT_COMMAND_CALL_H
#define WEFT_COMMAND_CALL_H

#include <weft/actor.h>

#include "actor/actor.h"

/* Send an envelope that expects a reply, and wait for the reply, as weft_actor_call. Takes the
 * envelope. */
int weft__call(weft_pid to, struct weft__envelope *envelope, weft_buf **reply, int64_t deadline);

/* The handler of WEFT_COMMAND_CALL. */
int weft__call_handle(const struct weft_command *command, void *arg);

#endif
