/* Handing a report to whoever wants it. */
#ifndef WEFT_OBS_REPORT_H
#define WEFT_OBS_REPORT_H

#include <stdbool.h>

#include <weft/report.h>

/* A text that is written like a file. */
struct weft__report {
    FILE *out;
    char *text;
    size_t length;
};

/* False: no memory. */
bool weft__report_open(struct weft__report *report);
/* Ends the text and hands it over. */
void weft__report_send(struct weft__report *report, enum weft_report_kind kind);

/* How many cycles were reported. */
uint64_t weft__cycles_reported(void);

#endif
