/* What clients need of the product's environment, in addition to the product's own headers. */
#ifndef WEFT_TEST_MODEL_TWINS_H
#define WEFT_TEST_MODEL_TWINS_H

#include <stdint.h>

/* The eventfd of a host's loop: the only descriptor. */
#define TWIN_EVENT_FD 7
void twin_event_reset(void);
/* As a host does: sleeps until a thread has written, and reads the count. */
uint64_t twin_event_read(void);

/* The clock stands still unless a client moves it: in its setup, and from then on in one thread,
 * which is the only thread that reads it. */
#define TWIN_NOW 1000000
void twin_clock_set(int64_t now);

/* In setup: the slot of a thread, NULL for none. */
struct weft__reader_slot;
void twin_reader_slot(int thread, struct weft__reader_slot *reader_slot);

/* weft__alloc returns NULL from now on, or no longer. */
void twin_alloc_fails(int fails);

#endif
