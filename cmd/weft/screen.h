/* How the tour looks: headings, aligned facts, and a line that shows progress.
 *
 * On a terminal the progress line is redrawn in place and things have colours; anywhere else, a
 * pipe or a file, it is a plain line at each quarter. NO_COLOR and TERM=dumb are honoured.
 */
#ifndef WEFT_CMD_SCREEN_H
#define WEFT_CMD_SCREEN_H

#include <stdint.h>

void screen_open(void);

void screen_title(const char *text);
void screen_heading(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A fact: its name in a column, then the text. */
void screen_fact(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A remark or an error, where the reader looks anyway. */
void screen_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "1,234,567", in one of a few buffers that are used in turn. */
const char *screen_number(uint64_t n);
/* "127.9 GiB", likewise. */
const char *screen_bytes(double bytes);

struct screen_progress {
    const char *what;
    long total;
    int64_t drawn_at;
    long quarter; /* the last that was printed, where the line is not redrawn */
};
void screen_progress_begin(struct screen_progress *progress, const char *what, long total);
void screen_progress_show(struct screen_progress *progress, long done);
/* Removes the line, so that the result can take its place. */
void screen_progress_end(struct screen_progress *progress);

#endif
