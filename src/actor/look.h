#ifndef WEFT_ACTOR_LOOK_INTERNAL_H
#define WEFT_ACTOR_LOOK_INTERNAL_H

#include <weft/actor_look.h>

/* From now on actors are seen as such in dumps of fibers. */
void weft__look_register(void);

#endif
