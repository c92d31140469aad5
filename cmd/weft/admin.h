/* The admin listener: /healthz, /readyz, /metrics (Prometheus text), /debug/fibers (the dump),
 * /debug/actors. */
#ifndef WEFT_CMD_ADMIN_H
#define WEFT_CMD_ADMIN_H

#include <weft/weft.h>

#include "access_log.h"

struct admin {
    weft_http_server *served; /* the server that it reports on */
    weft_pool *pool;
    struct log *log;          /* NULL: no access log */
    struct weft_addr at;      /* where it listens; the port is ignored */
    const char *const *hosts; /* accepted Host names, besides those of the machine itself */
    int host_count;
    bool dumping; /* used by the admin server's thread only */
};

/* Adds the admin routes. `admin` is borrowed as long as the server lives. */
int admin_routes(weft_http_server *server, struct admin *admin);

#endif
