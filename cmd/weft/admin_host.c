#include "admin_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

/* Parses a numeric address as IPv6; an IPv4 address is mapped. Returns false if it is not an
 * address. */
static bool read_address(const char *text, struct in6_addr *out)
{
    struct in_addr v4;
    size_t len = strlen(text);
    char inside[INET6_ADDRSTRLEN];
    if (text[0] == '[' && len > 2 && len - 2 < sizeof inside && text[len - 1] == ']') {
        memcpy(inside, text + 1, len - 2);
        inside[len - 2] = '\0';
        return inet_pton(AF_INET6, inside, out) == 1;
    }
    if (inet_pton(AF_INET, text, &v4) != 1) {
        return false;
    }
    *out = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(&out->s6_addr[12], &v4, sizeof v4);
    return true;
}

static struct in6_addr address_of(const struct weft_addr *at)
{
    struct in6_addr out = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    if (at->storage.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)&at->storage;
        memcpy(&out.s6_addr[12], &in->sin_addr, sizeof in->sin_addr);
    } else {
        out = ((const struct sockaddr_in6 *)(const void *)&at->storage)->sin6_addr;
    }
    return out;
}

static bool is_wildcard(const struct in6_addr *address)
{
    static const uint8_t zeros[4];
    return IN6_IS_ADDR_UNSPECIFIED(address) ||
           (IN6_IS_ADDR_V4MAPPED(address) && memcmp(&address->s6_addr[12], zeros, 4) == 0);
}

static bool is_loopback(const struct in6_addr *address)
{
    return IN6_IS_ADDR_LOOPBACK(address) ||
           (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

/* localhost and, as in browsers, every name below it. */
static bool is_localhost(const char *name, size_t len)
{
    static const char local[] = "localhost";
    size_t n = sizeof local - 1;
    len -= len && name[len - 1] == '.';
    return len >= n && strncasecmp(name + len - n, local, n) == 0 &&
           (len == n || name[len - n - 1] == '.');
}

bool admin_host_is_allowed(const char *host, size_t len, const struct weft_addr *at,
                           const char *const *names, int count)
{
    char text[256];
    struct in6_addr address, own;
    if (at->storage.ss_family == AF_UNIX || !host || !len || is_localhost(host, len)) {
        return true;
    }
    if (len >= sizeof text) {
        return false;
    }
    memcpy(text, host, len);
    text[len] = '\0';
    if (read_address(text, &address)) {
        own = address_of(at);
        return is_loopback(&address) || is_wildcard(&own) ||
               memcmp(&address, &own, sizeof own) == 0;
    }
    for (int i = 0; i < count; i++) {
        if (strcasecmp(text, names[i]) == 0) {
            return true;
        }
    }
    return false;
}
