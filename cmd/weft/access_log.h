/* The access log: one line per request, in the "combined" format, followed by the time that the
 * request took.
 *
 * Lines are collected under a short lock and written by the log's own thread, so that a slow disk
 * delays no request. If the thread cannot keep up (1 MiB is pending), lines are dropped and
 * counted.
 */
#ifndef WEFT_WEFT_ACCESS_LOG_H
#define WEFT_WEFT_ACCESS_LOG_H

#include <weft/weft.h>

struct log;

/* Path "-" is standard output. Returns 0 or a negative errno. */
int access_log_open(struct log **out, const char *path);
/* Writes the pending lines, for at most two seconds, and ends. NULL is allowed. */
void access_log_close(struct log *log);
/* For weft_http_server_opts.on_request; arg is the log. */
void access_log_request(const struct weft_http_record *record, void *arg);
uint64_t access_log_dropped(struct log *log);

#endif
