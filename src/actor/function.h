/* The handler of WEFT_COMMAND_FUNCTION: calls of function pools. */
#ifndef WEFT_ACTOR_FUNCTION_H
#define WEFT_ACTOR_FUNCTION_H

#include <weft/funcpool.h>

int weft__function_handle(const struct weft_command *command, void *arg);

#endif
