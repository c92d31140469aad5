/* The handler of calls as commands. */
#ifndef WEFT_ACTOR_CALL_INSIDE_H
#define WEFT_ACTOR_CALL_INSIDE_H

#include <weft/actor_call.h>

int weft__call_handle(const struct weft_command *command, void *arg);

#endif
