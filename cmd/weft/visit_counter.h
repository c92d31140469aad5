/* The visit counter of the built-in site: an actor whose supervisor restarts it when it crashes;
 * /debug/actors shows both. */
#ifndef WEFT_WEFT_VISIT_COUNTER_H
#define WEFT_WEFT_VISIT_COUNTER_H

#include <weft/weft.h>

struct visits {
    weft_host *host; /* NULL: not open */
};

/* visits: zeroed. Returns 0, or a negative errno and nothing is open. */
int visit_counter_open(struct visits *visits, enum weft_driver driver);
/* No request may use it any more. */
void visit_counter_close(struct visits *visits);
int visit_counter_routes(weft_http_server *server, struct visits *visits);

#endif
