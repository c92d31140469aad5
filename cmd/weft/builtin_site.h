/* The built-in site, which `weft serve` serves without a directory. */
#ifndef WEFT_WEFT_BUILTIN_SITE_H
#define WEFT_WEFT_BUILTIN_SITE_H

#include <weft/weft.h>

int builtin_site_routes(weft_http_server *server);

#endif
