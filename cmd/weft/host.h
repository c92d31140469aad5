/* Which names a listener for operators answers to.
 *
 * A browser on the operator's machine can be led to send requests there by a page from elsewhere
 * whose name is made to resolve to the loopback address (DNS rebinding). Such a request has that
 * name in its Host field. So only hosts are taken which nobody can make resolve elsewhere: numeric
 * addresses of this machine, localhost, and names that the operator has given.
 */
#ifndef WEFT_CMD_HOST_H
#define WEFT_CMD_HOST_H

#include <stdbool.h>

#include <weft/weft.h>

/* `host` is of a request, without the port; NULL: it had none, as only tools do. `at` is where the
 * server listens: on a Unix socket every host is good, and on the wildcard address every numeric
 * one. */
bool host_is_known(const char *host, size_t len, const struct weft_addr *at,
                   const char *const *names, int count);

#endif
