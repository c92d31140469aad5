/* The visit counter of the built-in site: an actor whose supervisor restarts it when it crashes;
 * /debug/actors shows both. */
#ifndef WEFT_CMD_VISITS_H
#define WEFT_CMD_VISITS_H

#include <weft/weft.h>

struct visits {
    weft_host *host; /* NULL: not open */
};

/* visits: zeroed. Returns 0, or a negative errno and nothing is open. */
int visits_open(struct visits *visits, enum weft_driver driver);
/* No request may use it any more. */
void visits_close(struct visits *visits);
int visits_routes(weft_http_server *server, struct visits *visits);

#endif
