/* getaddrinfo, getnameinfo, gethostbyname, for names that need no server. */
/* alike without hooks */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "hook/hooked.h"

static void *ask_plainly(void *name)
{
    const struct sockaddr_in addr = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK_EQ(getnameinfo((const struct sockaddr *)&addr, sizeof addr, name, 64, NULL, 0, 0), 0);
    return NULL;
}

/* Usually "localhost"; the name that a plain thread gets. */
static const char *name_of_loopback(void)
{
    static char name[64];
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, ask_plainly, name), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return name;
}

IN_FIBER(hooked_getaddrinfo_and_getnameinfo_resolve)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    CHECK_EQ(getaddrinfo("localhost", "80", &hints, &found), 0);
    const struct sockaddr_in *addr = (void *)found->ai_addr;
    CHECK_EQ(addr->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    CHECK_EQ(addr->sin_port, htons(80));
    char host[64], service[16];
    CHECK_EQ(getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof host, service,
                         sizeof service, NI_NUMERICHOST | NI_NUMERICSERV),
             0);
    CHECK_STR(host, "127.0.0.1");
    CHECK_EQ(
        getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof host, NULL, 0, NI_NAMEREQD), 0);
    CHECK_STR(host, name_of_loopback());
    CHECK_EQ(getnameinfo(found->ai_addr, 1, host, sizeof host, NULL, 0, 0), EAI_FAMILY);
    freeaddrinfo(found);
    hints.ai_flags = AI_NUMERICHOST;
    CHECK_EQ(getaddrinfo("no number", NULL, &hints, &found), EAI_NONAME);
    CHECK_EQ(getaddrinfo(NULL, NULL, &hints, &found), EAI_NONAME);
}

IN_FIBER(hooked_gethostbyname_resolves)
{
    const struct hostent *host = gethostbyname("localhost");
    CHECK(host != NULL);
    CHECK_EQ(host->h_addrtype, AF_INET);
    uint32_t addr;
    memcpy(&addr, host->h_addr_list[0], sizeof addr);
    CHECK_EQ(addr, htonl(INADDR_LOOPBACK));
    CHECK(gethostbyname2("::1", AF_INET6) != NULL);
    struct hostent entry, *found;
    char buf[1024];
    int error;
    CHECK_EQ(gethostbyname_r("127.0.0.2", &entry, buf, sizeof buf, &found, &error), 0);
    CHECK(found == &entry);
    CHECK_EQ(gethostbyname_r("localhost", &entry, buf, 8, &found, &error), ERANGE);
    CHECK_EQ(gethostbyname2_r("::1", AF_INET6, &entry, buf, sizeof buf, &found, &error), 0);
    CHECK_EQ(found->h_length, 16);
}

static void *asks(void *arg)
{
    const char *name = arg;
    const struct hostent *host = gethostbyname(name);
    CHECK(host != NULL);
    for (int i = 0; i < 5; i++) {
        weft_yield();
        char text[16];
        CHECK_STR(inet_ntop(AF_INET, host->h_addr_list[0], text, sizeof text), name);
    }
    return NULL;
}

/* Each fiber has its own static result. */
IN_FIBER(gethostbyname_result_is_per_fiber)
{
    static char names[8][24];
    weft_fiber fibers[8];
    if (!weft_hook_is_active()) {
        return;
    }
    for (int i = 0; i < 8; i++) {
        snprintf(names[i], sizeof names[i], "127.0.0.%d", i + 1);
        CHECK_EQ(weft_spawn(&fibers[i], asks, names[i], &(struct weft_fiber_opts){.hooked = true}),
                 0);
    }
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
}
