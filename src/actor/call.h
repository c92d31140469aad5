/* Calls from inside. */
#ifndef WEFT_ACTOR_CALL_INSIDE_H
#define WEFT_ACTOR_CALL_INSIDE_H

#include <weft/actor_call.h>

#include "actor/actor.h"

/* Sends a letter that asks, and waits for the answer, as weft_actor_call. Takes the letter. */
int weft__call(weft_pid to, struct weft__letter *letter, weft_buf **reply, int64_t deadline);

/* The handler of calls as commands. */
int weft__call_handle(const struct weft_command *command, void *arg);

#endif
