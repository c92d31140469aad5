#include "proto/authority.h"

#include <arpa/inet.h>

#include "proto/octet.h"

/* Returns the length of a "[...]" literal; 0 if it is not an IPv6 address. */
static size_t literal_len(const char *text, size_t len)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr parsed;
    const char *close = memchr(text, ']', len);
    if (!close || (size_t)(close - text) > sizeof address) {
        return 0;
    }
    size_t n = (size_t)(close - text) - 1;
    memcpy(address, text + 1, n);
    address[n] = '\0';
    if (memchr(address, '\0', n) || inet_pton(AF_INET6, address, &parsed) != 1) {
        return 0;
    }
    return n + 2;
}

static bool parse_port(const char *text, size_t len, int *port)
{
    int value = 0;
    if (len > 5) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (!weft__is_digit((unsigned char)text[i])) {
            return false;
        }
        value = value * 10 + (text[i] - '0');
    }
    *port = len ? value : -1;
    return value <= 65535;
}

bool weft__authority_parse(const char *text, size_t len, size_t *host_len, int *port)
{
    size_t host = 0;
    *port = -1;
    if (len && *text == '[') {
        host = literal_len(text, len);
        if (!host) {
            return false;
        }
    } else {
        while (host < len && weft__octet_is((unsigned char)text[host], WEFT__OCTET_HOST)) {
            host++;
        }
    }
    *host_len = host;
    if (host == len) {
        return true;
    }
    return host && text[host] == ':' && parse_port(text + host + 1, len - host - 1, port);
}
