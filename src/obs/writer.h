/* The writer of a dump: to a stream, or to a descriptor without the C library's locks and
 * allocations. */
#ifndef WEFT_OBS_WRITER_H
#define WEFT_OBS_WRITER_H

#include <stddef.h>
#include <stdio.h>

struct weft__writer {
    FILE *file; /* NULL: write to fd */
    int fd;
    int err; /* the first error, as a negative errno; later output is dropped */
    size_t used;
    char buf[4096];
};

/* Write formatted text; one call writes less than 1 KiB. */
void weft__writer_printf(struct weft__writer *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Write a JSON string with its quotes. Bytes that are not ASCII are treated as Latin-1, so that the
 * result is valid for any input. */
void weft__writer_json(struct weft__writer *out, const char *text);
/* Returns 0 or the first error. */
int weft__writer_flush(struct weft__writer *out);

#endif
