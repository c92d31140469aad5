/* The metrics page, in the Prometheus text format: counters, gauges and a histogram of the HTTP
 * server, the pool and the access log.
 *
 * Each metric is a HELP line, a TYPE line, and one line per value. Names begin with weft_, carry
 * their unit, and end in _total if they are counters. The values are read one after the other while
 * the server works, so two of them need not match exactly.
 */
#ifndef WEFT_CMD_METRICS_H
#define WEFT_CMD_METRICS_H

#include <stdio.h>

#include <weft/weft.h>

#include "access_log.h"

/* Writes the page. Probes the workers, so it waits up to a second if one does not respond. log:
 * NULL if there is no access log. */
void metrics_write(FILE *out, weft_http_server *server, weft_pool *pool, struct log *log);

#endif
