/* Where a report is written: to a stream, or to a descriptor without the C library's locks and
 * memory. */
#ifndef WEFT_OBS_OUT_H
#define WEFT_OBS_OUT_H

#include <stddef.h>
#include <stdio.h>

struct weft__out {
    FILE *file; /* or NULL and a descriptor */
    int fd;
    int err; /* the first, as a negative errno; what follows it is dropped */
    size_t used;
    char buf[4096];
};

/* One call writes less than 1 KiB. */
void weft__out(struct weft__out *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A JSON string with its quotes. Bytes that are not ASCII are taken for Latin-1, so that it is
 * valid whatever it holds. */
void weft__out_json(struct weft__out *out, const char *text);
/* 0, or what went wrong so far. */
int weft__out_flush(struct weft__out *out);

#endif
