/* The loaded objects (the program, its libraries), for the unwinder. Takes no lock, so that a
 * thread that is stuck in dlopen does no harm, and allocates nothing. With a C library that does
 * not support this (glibc before 2.35) no object is found. Unloading an object that still has
 * active frames is a bug of the program. */
#ifndef WEFT_BACKTRACE_LOADED_OBJECT_H
#define WEFT_BACKTRACE_LOADED_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weft__loaded_object {
    uint64_t first, end;       /* where it is mapped */
    uint64_t base;             /* load address: what its own addresses are relative to */
    const void *unwind_tables; /* .eh_frame_hdr, or NULL */
    const char *path;          /* "" for the program */
};

/* False: the address is not in a loaded object. */
bool weft__loaded_object_find(uint64_t address, struct weft__loaded_object *out);

/* The readable segment of the loaded file that contains the address. False: there is none. */
bool weft__loaded_object_segment(uint64_t address, uint64_t *first, uint64_t *end);

/* "libx.so+0x2f40", "program+0x2f40", or the bare address. */
void weft__loaded_object_format(uint64_t address, char *buf, size_t size);

#endif
