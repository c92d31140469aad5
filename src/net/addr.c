#include "net/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static struct sockaddr_in *v4(const struct weft_addr *addr)
{
    return (struct sockaddr_in *)(uintptr_t)&addr->storage;
}

static struct sockaddr_in6 *v6(const struct weft_addr *addr)
{
    return (struct sockaddr_in6 *)(uintptr_t)&addr->storage;
}

static struct sockaddr_un *un(const struct weft_addr *addr)
{
    return (struct sockaddr_un *)(uintptr_t)&addr->storage;
}

/* --- parsing -------------------------------------------------------------------------------- */

/* A path, or the name of an abstract socket after '@'. */
static int parse_unix(struct weft_addr *out, const char *text)
{
    size_t len = strlen(text);
    bool abstract = text[0] == '@';
    /* A path needs a terminating zero; the '@' of an abstract name is replaced by a leading
     * zero. */
    if (len == 0 || len + !abstract > sizeof un(out)->sun_path) {
        return -EINVAL;
    }
    un(out)->sun_family = AF_UNIX;
    if (abstract && len == 1) {
        out->len = offsetof(struct sockaddr_un, sun_path); /* for bind: the kernel chooses a name */
        return 0;
    }
    memcpy(un(out)->sun_path, text, len);
    if (abstract) {
        un(out)->sun_path[0] = 0;
    }
    out->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + !abstract);
    return 0;
}

int weft__addr_parse_port(const char *text)
{
    int port = 0;
    if (!*text) {
        return -EINVAL;
    }
    for (; *text; text++) {
        if (*text < '0' || *text > '9') {
            return -EINVAL;
        }
        port = port * 10 + (*text - '0');
        if (port > 65535) {
            return -EINVAL;
        }
    }
    return port;
}

static int parse_scope(struct weft_addr *out, const char *name)
{
    v6(out)->sin6_scope_id = if_nametoindex(name);
    if (v6(out)->sin6_scope_id == 0) {
        int number = weft__addr_parse_port(name); /* a numeric index, limited like a port */
        if (number <= 0) {
            return -EINVAL;
        }
        v6(out)->sin6_scope_id = (uint32_t)number;
    }
    return 0;
}

/* "::1" or "fe80::1%eth0", without the brackets. */
static int parse_v6(struct weft_addr *out, char *host)
{
    char *scope = strchr(host, '%');
    if (scope) {
        *scope++ = 0;
    }
    v6(out)->sin6_family = AF_INET6;
    out->len = sizeof(struct sockaddr_in6);
    if (inet_pton(AF_INET6, host, &v6(out)->sin6_addr) != 1) {
        return -EINVAL;
    }
    return scope ? parse_scope(out, scope) : 0;
}

static int parse_host(struct weft_addr *out, char *host)
{
    size_t len = strlen(host);
    if (len >= 2 && host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = 0;
        return parse_v6(out, host + 1);
    }
    if (len == 0 || strcmp(host, "*") == 0) {
        v6(out)->sin6_family = AF_INET6; /* the zero address is "any", including IPv4 */
        out->len = sizeof(struct sockaddr_in6);
        return 0;
    }
    v4(out)->sin_family = AF_INET;
    out->len = sizeof(struct sockaddr_in);
    return inet_pton(AF_INET, host, &v4(out)->sin_addr) == 1 ? 0 : -EINVAL;
}

int weft_addr_parse(struct weft_addr *out, const char *text)
{
    struct weft_addr addr = {0};
    char host[WEFT_ADDR_STRLEN];
    int err;
    if (strncmp(text, "unix:", 5) == 0) {
        err = parse_unix(&addr, text + 5);
    } else {
        const char *colon = strrchr(text, ':');
        int port = colon ? weft__addr_parse_port(colon + 1) : -EINVAL;
        if (port < 0 || (size_t)(colon - text) >= sizeof host) {
            return -EINVAL;
        }
        memcpy(host, text, (size_t)(colon - text));
        host[colon - text] = 0;
        err = parse_host(&addr, host);
        err = err ? err : weft_addr_set_port(&addr, (unsigned)port);
    }
    if (!err) {
        *out = addr;
    }
    return err;
}

/* --- formatting ------------------------------------------------------------------------------ */

static int format_unix(const struct weft_addr *addr, char *out, size_t size)
{
    size_t len = addr->len - offsetof(struct sockaddr_un, sun_path);
    len = len < sizeof un(addr)->sun_path ? len : sizeof un(addr)->sun_path;
    const char *path = un(addr)->sun_path;
    if (addr->len <= offsetof(struct sockaddr_un, sun_path)) {
        return snprintf(out, size, "unix:");
    }
    if (path[0] == 0) {
        char name[sizeof un(addr)->sun_path];
        for (size_t i = 0; i < len; i++) {
            name[i] = path[i] ? path[i] : '@'; /* an abstract name may contain zeros */
        }
        return snprintf(out, size, "unix:%.*s", (int)len, name);
    }
    return snprintf(out, size, "unix:%.*s", (int)strnlen(path, len), path);
}

int weft_addr_format(const struct weft_addr *addr, char *out, size_t size)
{
    char host[INET6_ADDRSTRLEN], scope[IF_NAMESIZE + 1] = "";
    switch (addr->storage.ss_family) {
    case AF_INET:
        inet_ntop(AF_INET, &v4(addr)->sin_addr, host, sizeof host);
        return snprintf(out, size, "%s:%u", host, ntohs(v4(addr)->sin_port));
    case AF_INET6:
        inet_ntop(AF_INET6, &v6(addr)->sin6_addr, host, sizeof host);
        if (v6(addr)->sin6_scope_id) {
            scope[0] = '%';
            if (!if_indextoname(v6(addr)->sin6_scope_id, scope + 1)) {
                snprintf(scope, sizeof scope, "%%%u", v6(addr)->sin6_scope_id);
            }
        }
        return snprintf(out, size, "[%s%s]:%u", host, scope, ntohs(v6(addr)->sin6_port));
    case AF_UNIX:
        return format_unix(addr, out, size);
    default:
        return snprintf(out, size, "family %d", addr->storage.ss_family);
    }
}

/* --- addresses of sockets, ports -------------------------------------------------------------- */

int weft_addr_local(int fd, struct weft_addr *out)
{
    out->len = sizeof out->storage;
    return getsockname(fd, (struct sockaddr *)&out->storage, &out->len) == 0 ? 0 : -errno;
}

int weft_addr_peer(int fd, struct weft_addr *out)
{
    out->len = sizeof out->storage;
    return getpeername(fd, (struct sockaddr *)&out->storage, &out->len) == 0 ? 0 : -errno;
}

int weft_addr_port(const struct weft_addr *addr)
{
    return addr->storage.ss_family == AF_INET    ? ntohs(v4(addr)->sin_port)
           : addr->storage.ss_family == AF_INET6 ? ntohs(v6(addr)->sin6_port)
                                                 : -EINVAL;
}

int weft_addr_set_port(struct weft_addr *addr, unsigned port)
{
    if (port > 65535) {
        return -EINVAL;
    }
    switch (addr->storage.ss_family) {
    case AF_INET:
        v4(addr)->sin_port = htons((uint16_t)port);
        return 0;
    case AF_INET6:
        v6(addr)->sin6_port = htons((uint16_t)port);
        return 0;
    default:
        return -EINVAL;
    }
}
