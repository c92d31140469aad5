/* Which Host names the admin listener accepts.
 *
 * A web page from elsewhere can make a browser on the operator's machine send requests to the admin
 * listener, if the page's name resolves to the loopback address (DNS rebinding). Such a request
 * carries that name in its Host field. So only hosts are accepted that no one else can make resolve
 * elsewhere: numeric addresses of this machine, localhost, and names that the operator has given.
 */
#ifndef WEFT_WEFT_ADMIN_HOST_H
#define WEFT_WEFT_ADMIN_HOST_H

#include <stdbool.h>

#include <weft/weft.h>

/* host: of the request, without the port; NULL if there was none, which only tools do. at: where
 * the server listens: on a Unix socket every host is accepted, and on the wildcard address every
 * numeric one. */
bool admin_host_is_allowed(const char *host, size_t len, const struct weft_addr *at,
                           const char *const *names, int count);

#endif
