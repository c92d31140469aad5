/* The handler of WEFT_COMMAND_FUNCTION: calls of function pools. */
#ifndef WEFT_COMMAND_FUNCPOOL_H
#define WEFT_COMMAND_FUNCPOOL_H

#include <weft/actor.h>

int weft__funcpool_handle_command(const struct weft_command *command, void *arg);

#endif
