/* The built-in site, which `weft serve` serves without a directory. */
#ifndef WEFT_CMD_SITE_H
#define WEFT_CMD_SITE_H

#include <weft/weft.h>

int site_routes(weft_http_server *server);

#endif
