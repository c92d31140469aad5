/* Names resolved by a name server in the test, and connections to the resolved addresses. */
#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "io/drivers.h"

/* --- a name server on a plain thread ------------------------------------------------------- */

static int server;
static char servers[64];
static pthread_t server_thread;

/* Answers one question: types A and AAAA for a few names. Returns 0 for no answer. */
static size_t answer(unsigned char *msg, size_t len)
{
    char name[64];
    size_t at = 12, out = 0;
    while (at < len && msg[at]) {
        size_t part = msg[at++];
        while (part-- && at < len && out < sizeof name - 2) {
            name[out++] = (char)msg[at++];
        }
        name[out++] = '.';
    }
    name[out] = 0;
    unsigned type = (unsigned)msg[at + 1] << 8 | msg[at + 2];
    size_t end = at + 5;
    bool v4 = type == 1, both = strcmp(name, "both.test.") == 0;
    if (strcmp(name, "silent.test.") == 0) {
        return 0;
    }
    bool known = both || strcmp(name, "four.test.") == 0;
    bool failing = strcmp(name, "failing.test.") == 0;
    msg[2] = 0x81;
    msg[3] = (unsigned char)(0x80 | (failing ? 2 : known ? 0 : 3));
    memset(msg + 6, 0, 6);
    if (!known || failing || (!v4 && !both) || (type != 1 && type != 28)) {
        return end;
    }
    msg[7] = 1;
    const unsigned char head[] = {0xc0, 12, 0, (unsigned char)type, 0, 1, 0, 0,
                                  0,    60, 0, v4 ? 4 : 16};
    memcpy(msg + end, head, sizeof head);
    end += sizeof head;
    memset(msg + end, 0, 16);
    if (v4) {
        memcpy(msg + end, (unsigned char[]){127, 0, 0, 1}, 4);
    } else {
        msg[end + 15] = 1;
    }
    return end + (v4 ? 4 : 16);
}

static void *serve_names(void *arg)
{
    unsigned char msg[512];
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    ssize_t n;
    while ((n = recvfrom(server, msg, 400, 0, (struct sockaddr *)&peer, &len)) > 1) {
        size_t size = answer(msg, (size_t)n);
        if (size) {
            CHECK(sendto(server, msg, size, 0, (struct sockaddr *)&peer, len) == (ssize_t)size);
        }
    }
    return arg;
}

static void start_server(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(server >= 0 && bind(server, (struct sockaddr *)&addr, len) == 0);
    CHECK_EQ(getsockname(server, (struct sockaddr *)&addr, &len), 0);
    snprintf(servers, sizeof servers, "127.0.0.1:%u", ntohs(addr.sin_port));
    CHECK_EQ(pthread_create(&server_thread, NULL, serve_names, NULL), 0);
}

static void stop_server(void)
{
    struct sockaddr_in addr;
    socklen_t len = sizeof addr;
    CHECK_EQ(getsockname(server, (struct sockaddr *)&addr, &len), 0);
    CHECK_EQ(sendto(server, "x", 1, 0, (struct sockaddr *)&addr, len), 1);
    CHECK_EQ(pthread_join(server_thread, NULL), 0);
    close(server);
}

static void on(enum weft_driver driver, weft_fn fn)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    start_server();
    CHECK_EQ(weft_run(NULL, fn, NULL, &opts, WEFT_FOREVER), 0);
    stop_server();
}

static int resolve(const char *host, struct weft_addr *out, size_t max, int64_t deadline)
{
    const struct weft_resolve_opts opts = {
        .servers = servers, .try_timeout_ns = 60000000000, .tries = 1};
    return weft_resolve(out, max, host, 80, &opts, deadline);
}

static bool have_resolver(void)
{
    struct weft_addr addr;
    bool have = weft_resolve(&addr, 1, "localhost", 1, NULL, WEFT_FOREVER) != -ENOSYS;
    if (!have) {
        printf("  built without a resolver\n");
    }
    return have;
}

/* --- tests ------------------------------------------------------------------------------------ */

/* A name that is only in the hosts file. Returns false if this machine has only its own name
 * there. */
static bool name_of_hosts(char *out, size_t size)
{
    char line[512];
    bool found = false;
    FILE *hosts = fopen("/etc/hosts", "re");
    while (hosts && !found && fgets(line, sizeof line, hosts)) {
        char *rest, *address = strtok_r(line, " \t\n", &rest);
        const char *name = address ? strtok_r(NULL, " \t\n", &rest) : NULL;
        found = name && strchr(address, '.') && address[0] != '#' && name[0] != '#' &&
                strncmp(name, "localhost", 9) != 0;
        snprintf(out, size, "%s", found ? name : "");
    }
    if (hosts) {
        fclose(hosts);
    }
    return found;
}

static void *names(void *arg)
{
    char host[256];
    struct weft_addr addrs[4];
    char text[WEFT_ADDR_STRLEN];
    CHECK_EQ(resolve("both.test", addrs, 4, WEFT_FOREVER), 2);
    CHECK_EQ(weft_addr_port(&addrs[0]), 80);
    CHECK(addrs[0].storage.ss_family != addrs[1].storage.ss_family);
    CHECK_EQ(resolve("both.test", addrs, 1, WEFT_FOREVER), 1);
    CHECK_EQ(resolve("four.test", addrs, 4, WEFT_FOREVER), 1);
    weft_addr_format(&addrs[0], text, sizeof text);
    CHECK_STR(text, "127.0.0.1:80");
    CHECK_EQ(resolve("none.test", addrs, 4, WEFT_FOREVER), -ENOENT);
    CHECK_EQ(resolve("failing.test", addrs, 4, WEFT_FOREVER), -EREMOTEIO);
    CHECK_EQ(resolve("localhost", addrs, 4, WEFT_FOREVER) > 0, 1); /* the hosts file */
    if (name_of_hosts(host, sizeof host)) {
        CHECK(resolve(host, addrs, 4, WEFT_FOREVER) > 0); /* the server knows no such name */
    }
    /* A try too short to be answered, and the tries after it, each twice as long. */
    const struct weft_resolve_opts brief = {
        .servers = servers, .try_timeout_ns = 1000, .tries = 18};
    CHECK_EQ(weft_resolve(addrs, 4, "four.test", 80, &brief, WEFT_FOREVER), 1);
    CHECK_EQ(resolve("", addrs, 4, WEFT_FOREVER), -EINVAL);
    return arg;
}

EACH_DRIVER(names_resolve_to_addresses)
{
    if (have_resolver()) {
        on(driver, names);
    }
}

static void *waits_for_name(void *arg)
{
    struct weft_addr addr;
    (void)arg;
    return (void *)(intptr_t)resolve("silent.test", &addr, 1, WEFT_FOREVER);
}

static void *ends(void *arg)
{
    struct weft_addr addr;
    enum weft_fiber_state state;
    weft_fiber fiber;
    void *result;
    CHECK_EQ(resolve("silent.test", &addr, 1, weft_after(30000000)), -ETIMEDOUT);
    const struct weft_resolve_opts brief = {
        .servers = servers, .try_timeout_ns = 100000000, .tries = 1};
    CHECK_EQ(weft_resolve(&addr, 1, "silent.test", 80, &brief, WEFT_FOREVER), -EREMOTEIO);
    CHECK_EQ(weft_spawn(&fiber, waits_for_name, NULL, NULL), 0);
    do {
        weft_yield();
        CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    } while (state != WEFT_FIBER_WAITING);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, -ECANCELED);
    return arg;
}

EACH_DRIVER(resolve_of_unresponsive_server_ends_on_deadline_or_cancel)
{
    if (have_resolver()) {
        on(driver, ends);
    }
}

/* Until the deadline, with as many tries as fit; with two servers, twice as many. */
static void *asks_on_and_on(void *arg)
{
    struct weft_addr addr;
    char two[2 * sizeof servers];
    snprintf(two, sizeof two, "%s,%s", servers, servers);
    const struct weft_resolve_opts opts = {.servers = two, .try_timeout_ns = 1, .tries = INT_MAX};
    CHECK_EQ(weft_resolve(&addr, 1, "silent.test", 80, &opts, weft_after(30000000)), -ETIMEDOUT);
    CHECK_EQ(weft_resolve(&addr, 1, "silent.test", 80, &opts, 0), -ETIMEDOUT);
    struct weft_resolve_opts wrong = {.servers = two, .tries = -1};
    CHECK_EQ(weft_resolve(&addr, 1, "silent.test", 80, &wrong, WEFT_FOREVER), -EINVAL);
    wrong = (struct weft_resolve_opts){.servers = two, .try_timeout_ns = -1};
    CHECK_EQ(weft_resolve(&addr, 1, "silent.test", 80, &wrong, WEFT_FOREVER), -EINVAL);
    return arg;
}

EACH_DRIVER(resolve_with_maximal_retries_ends_at_deadline)
{
    if (have_resolver()) {
        on(driver, asks_on_and_on);
    }
}

TEST(numeric_hosts_resolve_without_server)
{
    struct weft_addr addr;
    char text[WEFT_ADDR_STRLEN];
    CHECK_EQ(weft_resolve(&addr, 1, "10.1.2.3", 5, NULL, WEFT_FOREVER), 1);
    weft_addr_format(&addr, text, sizeof text);
    CHECK_STR(text, "10.1.2.3:5");
    CHECK_EQ(weft_resolve(&addr, 1, "::1", 5, NULL, WEFT_FOREVER), 1);
    weft_addr_format(&addr, text, sizeof text);
    CHECK_STR(text, "[::1]:5");
    CHECK_EQ(weft_resolve(&addr, 1, "::1", 5, &(struct weft_resolve_opts){.family = AF_INET},
                          WEFT_FOREVER),
             -ENOENT);
    CHECK_EQ(weft_resolve(&addr, 1, "x", 65536, NULL, WEFT_FOREVER), -EINVAL);
}

/* The first address refuses: the second is tried at once. */
static void *refused_then_taken(void *arg)
{
    struct weft_addr addrs[2];
    int listener = weft_listen("127.0.0.1:0", NULL);
    CHECK(listener >= 0);
    CHECK_EQ(weft_addr_local(listener, &addrs[1]), 0);
    CHECK_EQ(weft_addr_parse(&addrs[0], "127.0.0.1:1"), 0);
    int64_t began = weft_now();
    int fd = weft_dial_addrs(addrs, 2, 60000000000, WEFT_FOREVER);
    CHECK(fd >= 0);
    CHECK(weft_now() - began < 60000000000);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_dial_addrs(addrs, 1, 0, WEFT_FOREVER), -ECONNREFUSED);
    CHECK_EQ(weft_close(listener), 0);
    return arg;
}

EACH_DRIVER(dial_tries_next_address_after_refusal)
{
    on(driver, refused_then_taken);
}

/* An address that does not answer, because its listener's backlog is full. */
static void *slow_beside_fast(void *arg)
{
    struct weft_addr addrs[2];
    int fillers[8];
    int deaf = weft_listen("127.0.0.1:0", &(struct weft_listen_opts){.backlog = 1});
    int listener = weft_listen("127.0.0.1:0", NULL);
    CHECK(deaf >= 0 && listener >= 0);
    CHECK_EQ(weft_addr_local(deaf, &addrs[0]), 0);
    CHECK_EQ(weft_addr_local(listener, &addrs[1]), 0);
    for (int i = 0; i < 8; i++) {
        fillers[i] = weft_connect(&addrs[0], weft_after(20000000));
    }
    CHECK_EQ(fillers[7], -ETIMEDOUT);
    int fd = weft_dial_addrs(addrs, 2, 10000000, weft_after(60000000000));
    CHECK(fd >= 0);
    struct weft_addr peer;
    CHECK_EQ(weft_addr_peer(fd, &peer), 0);
    CHECK_EQ(weft_addr_port(&peer), weft_addr_port(&addrs[1]));
    CHECK_EQ(weft_dial_addrs(addrs, 1, 0, weft_after(20000000)), -ETIMEDOUT);
    for (int i = 0; i < 8; i++) {
        if (fillers[i] >= 0) {
            CHECK_EQ(weft_close(fillers[i]), 0);
        }
    }
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_close(deaf), 0);
    CHECK_EQ(weft_close(listener), 0);
    return arg;
}

EACH_DRIVER(dial_prefers_fast_address_over_slow_one)
{
    on(driver, slow_beside_fast);
}

static void *dials_by_name(void *arg)
{
    struct weft_addr addr;
    char address[64];
    int listener = weft_listen("127.0.0.1:0", NULL);
    CHECK(listener >= 0);
    CHECK_EQ(weft_addr_local(listener, &addr), 0);
    snprintf(address, sizeof address, "both.test:%d", weft_addr_port(&addr));
    const struct weft_dial_opts opts = {.resolve = {.servers = servers}};
    int fd = weft_dial(address, &opts, weft_after(60000000000));
    CHECK(fd >= 0);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_dial("both.test:", &opts, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_dial("both.test:70000", &opts, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_dial("none.test:80", &opts, WEFT_FOREVER), -ENOENT);
    CHECK_EQ(weft_close(listener), 0);
    return arg;
}

EACH_DRIVER(dial_by_name_connects)
{
    if (have_resolver()) {
        on(driver, dials_by_name);
    }
}
