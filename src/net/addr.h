/* Parsing of ports, for other files that split "host:port". */
#ifndef WEFT_NET_ADDR_H
#define WEFT_NET_ADDR_H

#include <weft/net.h>

/* Parse a port: digits only, up to 65535; else -EINVAL. */
int weft__addr_parse_port(const char *text);

#endif
