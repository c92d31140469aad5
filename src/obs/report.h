/* Building a report and passing it to the report handler. */
#ifndef WEFT_OBS_REPORT_H
#define WEFT_OBS_REPORT_H

#include <stdbool.h>

#include <weft/inspect.h>

/* A text that is written like a file. */
struct weft__report {
    FILE *out;
    char *text;
    size_t length;
};

/* False: no memory. */
bool weft__report_open(struct weft__report *report);
/* Finish the text and pass it to the handler. */
void weft__report_send(struct weft__report *report, enum weft_report_kind kind);

/* The name of the constant, as dumps show it. */
const char *weft__wake_source_name(enum weft_wake_source wake_source);

/* The number of cycles reported so far. */
uint64_t weft__cycles_reported(void);

#endif
