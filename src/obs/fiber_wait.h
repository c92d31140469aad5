/* The wait of a fiber: the object it waits on, and the fiber that must act first. Read while the
 * waiting fiber is held, so that the object exists while it is read. */
#ifndef WEFT_OBS_FIBER_WAIT_H
#define WEFT_OBS_FIBER_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <weft/fiber.h>

struct weft__wait_kind;

struct weft__fiber_wait {
    weft_fiber fiber;
    uint64_t ticket;   /* of this wait */
    const char *what;  /* "mutex" */
    uint64_t on;       /* a fiber, the address of an object, or 0 */
    bool on_fiber;     /* `on` is a fiber */
    weft_fiber holder; /* WEFT_NO_FIBER: none, or unknown */
    char name[16], pool[32];
    char label[32];  /* the object's name, truncated */
    unsigned others; /* number of further objects it waits on */
};

/* The name of the object, "" if it has none. While the waiter is held. */
void weft__fiber_wait_label(const struct weft__wait_kind *kind, uint64_t on, char *out,
                            size_t size);

/* Fill in the object of a wait, as it was given to park, and its holder; the rest of *out is
 * unchanged. While the waiter is held. */
void weft__fiber_wait_fill(const struct weft__wait_kind *kind, uint64_t on,
                           struct weft__fiber_wait *out);

/* False: the fiber has ended, or does not wait. Any thread. */
bool weft__fiber_wait_read(weft_fiber fiber, struct weft__fiber_wait *out);

/* "fiber #3.1 a waits on mutex db held by #4.1 b", without a newline. */
void weft__fiber_wait_print(const struct weft__fiber_wait *waits, FILE *out);
/* "waits on mutex db held by #4.1 b". */
void weft__fiber_wait_print_object(const struct weft__fiber_wait *waits, FILE *out);

/* "#4.1 b", or without the name if it has none or has ended. */
void weft__fiber_print(weft_fiber fiber, FILE *out);

#endif
