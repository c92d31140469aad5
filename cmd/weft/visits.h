/* Visits to the built-in site, counted by an actor that a supervisor starts again when it crashes;
 * /debug/actors shows both. */
#ifndef WEFT_CMD_VISITS_H
#define WEFT_CMD_VISITS_H

#include <weft/weft.h>

struct visits {
    weft_host *host; /* NULL: it is not open */
};

/* Of zeros. -errno, and it is not open. */
int visits_open(struct visits *visits, enum weft_driver driver);
/* When nobody asks any more. */
void visits_close(struct visits *visits);
int visits_routes(weft_http_server *server, struct visits *visits);

#endif
