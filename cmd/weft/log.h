/* The access log: one line per request, in the form that others call "combined", with the time it
 * took behind.
 *
 * Lines are gathered per caller's turn under a small lock and written by a thread of the log's own,
 * so that a slow disk holds up nobody. If the thread cannot keep up (1 MiB waits), lines are
 * dropped and counted.
 */
#ifndef WEFT_CMD_LOG_H
#define WEFT_CMD_LOG_H

#include <weft/weft.h>

struct log;

/* "-": standard output. -errno. */
int log_open(struct log **out, const char *path);
/* Writes what is there, for two seconds at most, and ends. NULL is fine. */
void log_close(struct log *log);
/* For weft_http_server_opts.on_request; arg is the log. */
void log_request(const struct weft_http_record *record, void *arg);
uint64_t log_dropped(struct log *log);

#endif
