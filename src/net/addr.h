/* What others need of the text of addresses. */
#ifndef WEFT_NET_ADDR_H
#define WEFT_NET_ADDR_H

#include <weft/addr.h>

/* The port: digits only, up to 65535; else -EINVAL. */
int weft__addr_parse_port(const char *text);

#endif
