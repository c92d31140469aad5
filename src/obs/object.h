/* The loaded objects (the program, its libraries) as an unwinder needs them. Takes no lock, so that
 * a thread that is stuck in dlopen does no harm, and allocates nothing. With a C library that
 * cannot do that (glibc before 2.35) there are none. An object that is unloaded while somebody has
 * frames in it is the program's bug. */
#ifndef WEFT_OBS_OBJECT_H
#define WEFT_OBS_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weft__object {
    uint64_t first, end;       /* where it is mapped */
    uint64_t base;             /* what its own addresses are relative to */
    const void *unwind_tables; /* .eh_frame_hdr, or NULL */
    const char *path;          /* "" for the program */
};

/* False: the address is in none. */
bool weft__object_at(uint64_t address, struct weft__object *out);

/* The part of the loaded file that holds the address and may be read. False: there is none. */
bool weft__object_segment(uint64_t address, uint64_t *first, uint64_t *end);

/* "libx.so+0x2f40", "program+0x2f40", or the bare address. */
void weft__object_text(uint64_t address, char *buf, size_t size);

#endif
