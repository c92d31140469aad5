/* Parses host[:port], as in Host fields and request targets. */
#ifndef WEFT_PROTO_AUTHORITY_H
#define WEFT_PROTO_AUTHORITY_H

#include <stdbool.h>
#include <stddef.h>

/* Returns false for bad syntax. *host_len is 0 for an empty host, which some callers allow; *port
 * is -1 if there is none. Literal IPv6 addresses keep their brackets. */
bool weft__authority_parse(const char *text, size_t len, size_t *host_len, int *port);

#endif
