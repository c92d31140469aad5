/* Names to addresses and back: the C library's resolver, on a thread of the blocking pool. Results
 * that the C library returns in static memory are returned in memory of the fiber, which a query of
 * another fiber does not change. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hook/real_calls.h"
#include "hook/wait.h"

/* Run the call on the blocking pool, or here if there is no thread. False: a cancel or an interrupt
 * came first; errno says which. */
static bool run(void (*call)(void *arg), void *arg)
{
    bool use_real;
    if (weft__hook_run_blocking(call, arg, &use_real)) {
        return true;
    }
    if (use_real) {
        call(arg);
    }
    return use_real;
}

/* --- getaddrinfo ------------------------------------------------------------------------------ */

struct addr_job {
    const char *node, *service;
    const struct addrinfo *hints;
    struct addrinfo **found;
    int result;
};

static void getaddrinfo_plain(void *arg)
{
    struct addr_job *job = arg;
    job->result = weft__real()->getaddrinfo(job->node, job->service, job->hints, job->found);
}

WEFT__HOOK int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                           struct addrinfo **found)
{
    struct addr_job job = {.node = node, .service = service, .hints = hints, .found = found};
    if (!weft__hook_begin()) {
        return weft__real()->getaddrinfo(node, service, hints, found);
    }
    return run(getaddrinfo_plain, &job) ? job.result : EAI_SYSTEM;
}

struct name_job {
    const struct sockaddr *addr;
    socklen_t len, host_size, service_size;
    char *host, *service;
    int flags, result;
};

static void getnameinfo_plain(void *arg)
{
    struct name_job *job = arg;
    job->result = weft__real()->getnameinfo(job->addr, job->len, job->host, job->host_size,
                                            job->service, job->service_size, job->flags);
}

WEFT__HOOK int getnameinfo(const struct sockaddr *addr, socklen_t len, char *host,
                           socklen_t host_size, char *service, socklen_t service_size, int flags)
{
    struct name_job job = {.addr = addr,
                           .len = len,
                           .host_size = host_size,
                           .service_size = service_size,
                           .host = host,
                           .service = service,
                           .flags = flags};
    bool numeric = (!host || (flags & NI_NUMERICHOST)) && (!service || (flags & NI_NUMERICSERV));
    if (numeric || !weft__hook_begin()) {
        return weft__real()->getnameinfo(addr, len, host, host_size, service, service_size, flags);
    }
    return run(getnameinfo_plain, &job) ? job.result : EAI_SYSTEM;
}

/* --- gethostbyname ---------------------------------------------------------------------------- */

struct host_job {
    const char *name;
    int family; /* 0: the call without a family */
    struct hostent *entry, **found;
    char *buf;
    size_t size;
    int *error, result;
};

static void gethost_plain(void *arg)
{
    struct host_job *job = arg;
    job->result = job->family
                      ? weft__real()->gethostbyname2_r(job->name, job->family, job->entry, job->buf,
                                                       job->size, job->found, job->error)
                      : weft__real()->gethostbyname_r(job->name, job->entry, job->buf, job->size,
                                                      job->found, job->error);
}

static int gethost(struct host_job *job)
{
    if (run(gethost_plain, job)) {
        return job->result;
    }
    *job->found = NULL;
    *job->error = NETDB_INTERNAL;
    return errno;
}

WEFT__HOOK int gethostbyname_r(const char *name, struct hostent *entry, char *buf, size_t size,
                               struct hostent **found, int *error)
{
    struct host_job job = {name, 0, entry, found, buf, size, error, 0};
    return weft__hook_begin() ? gethost(&job)
                              : weft__real()->gethostbyname_r(name, entry, buf, size, found, error);
}

WEFT__HOOK int gethostbyname2_r(const char *name, int family, struct hostent *entry, char *buf,
                                size_t size, struct hostent **found, int *error)
{
    struct host_job job = {name, family, entry, found, buf, size, error, 0};
    return weft__hook_begin()
               ? gethost(&job)
               : weft__real()->gethostbyname2_r(name, family, entry, buf, size, found, error);
}

/* The last result of a fiber. */
struct host_result {
    struct hostent entry;
    size_t size;
    char buf[];
};

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static weft_fiber_key key;
static bool has_key;

static void make_key(void)
{
    has_key = weft_fiber_key_create(&key, free) == 0;
}

static struct hostent *query_host(const char *name, int family)
{
    struct host_result *host_result = weft_fiber_get_local(key);
    struct hostent *found = NULL;
    for (;;) {
        if (host_result) {
            int error = 0;
            struct host_job job = {
                name,   family, &host_result->entry, &found, host_result->buf, host_result->size,
                &error, 0};
            if (gethost(&job) != ERANGE) {
                h_errno = error;
                return found;
            }
        }
        size_t size = host_result ? 2 * host_result->size : 1024;
        struct host_result *larger = realloc(host_result, sizeof *larger + size);
        if (!larger) {
            h_errno = NETDB_INTERNAL;
            return NULL;
        }
        host_result = larger;
        host_result->size = size;
        weft_fiber_set_local(key, host_result);
    }
}

WEFT__HOOK struct hostent *gethostbyname(const char *name)
{
    bool hooked = weft__hook_begin() && pthread_once(&key_once, make_key) == 0 && has_key;
    return hooked ? query_host(name, 0) : weft__real()->gethostbyname(name);
}

WEFT__HOOK struct hostent *gethostbyname2(const char *name, int family)
{
    bool hooked = weft__hook_begin() && pthread_once(&key_once, make_key) == 0 && has_key;
    return hooked ? query_host(name, family) : weft__real()->gethostbyname2(name, family);
}
