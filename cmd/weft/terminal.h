/* Output of the demo: headings, aligned facts, and a progress line.
 *
 * On a terminal the progress line is redrawn in place and output has colours; on a pipe or a file
 * progress is a plain line at each quarter. NO_COLOR and TERM=dumb are honoured.
 */
#ifndef WEFT_WEFT_TERMINAL_H
#define WEFT_WEFT_TERMINAL_H

#include <stdint.h>

void terminal_open(void);

void terminal_title(const char *text);
void terminal_heading(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Prints a fact: its name in a column, then the text. */
void terminal_fact(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a remark or an error among the output. */
void terminal_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Formats a number as "1,234,567", in one of a few static buffers that are reused in turn. */
const char *terminal_number(uint64_t n);
/* Formats a size as "127.9 GiB", likewise. */
const char *terminal_bytes(double bytes);

struct terminal_progress {
    const char *what;
    long total;
    int64_t drawn_at;
    long quarter; /* the last quarter that was printed, if the line is not redrawn */
};
void terminal_progress_begin(struct terminal_progress *progress, const char *what, long total);
void terminal_progress_show(struct terminal_progress *progress, long done);
/* Removes the line, so that the result can take its place. */
void terminal_progress_end(struct terminal_progress *progress);

#endif
