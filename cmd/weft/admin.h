/* The admin listener: /healthz, /metrics (Prometheus text), /debug/fibers (the dump),
 * /debug/actors. */
#ifndef WEFT_CMD_ADMIN_H
#define WEFT_CMD_ADMIN_H

#include <weft/weft.h>

#include "log.h"

struct admin {
    weft_http_server *served; /* what it tells about */
    weft_pool *pool;
    struct log *log;          /* NULL: none */
    struct weft_addr at;      /* where it listens, whatever the port */
    const char *const *hosts; /* names that it answers to, besides those of the machine itself */
    int host_count;
    bool dumping; /* its server's thread's alone */
};

/* `admin` is borrowed for as long as the server lives. */
int admin_routes(weft_http_server *server, struct admin *admin);

#endif
