/* After thousands of connections have closed, their memory returns to the kernel. (An emulator has
 * its own memory, and returns none.) */
/* not under: qemu */
#include <sys/resource.h>

#include "context/sanitizer.h"
#include "http/client.h"

#define WAIT_LIMIT 60 /* seconds */
enum { MOST = 1500, LEAST = 500 };

static int clients[MOST];

static int hello(weft_http *req, void *arg)
{
    (void)arg;
    return weft_http_respond(req, 200, "text/plain", "hello", 5);
}

/* As many as the descriptors allow, two for each. */
static int how_many(void)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlim_t wanted = 2 * MOST + 200;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur < wanted ? ((int)limit.rlim_cur - 200) / 2 : MOST;
}

static long resident_kib(void)
{
    char line[200];
    long kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    CHECK(file);
    while (fgets(line, sizeof line, file) && sscanf(line, "Pss: %ld kB", &kib) != 1) {
    }
    fclose(file);
    CHECK(kib > 0);
    return kib;
}

static void ask(const struct served *s, int *fd)
{
    char reply[1000];
    const char *request = get("/");
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(*fd >= 0);
    CHECK_EQ(connect(*fd, (const struct sockaddr *)&s->at.storage, s->at.len), 0);
    CHECK_EQ(send(*fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    CHECK(recv(*fd, reply, sizeof reply, 0) > 0);
}

static void come_and_go(struct served *s, int n, long *peak)
{
    for (int i = 0; i < n; i++) {
        ask(s, &clients[i]);
    }
    *peak = resident_kib();
    for (int i = 0; i < n; i++) {
        close(clients[i]);
    }
}

EACH_DRIVER(memory_is_returned_after_many_connections)
{
    struct served s;
    long before, peak, after;
    int n = how_many();
    if (n < LEAST || weft__san_valgrind) {
        printf("    too few descriptors, or not the true memory\n");
        return;
    }
    served_make(&s, driver, 2, NULL);
    served_route(&s, "GET", "/", hello);
    served_listen(&s);
    come_and_go(&s, 10, &peak);
    before = resident_kib();
    come_and_go(&s, n, &peak);
    double from = check_seconds();
    while ((after = resident_kib()) - before > (peak - before) / 5 && !WEFT__ASAN && !WEFT__TSAN &&
           check_seconds() - from < WAIT_LIMIT) {
        poll(NULL, 0, 50);
    }
    printf("    %d connections: %ld kB before, %ld at the peak, %ld after %.1f s\n", n, before,
           peak, after, check_seconds() - from);
    CHECK(WEFT__ASAN || WEFT__TSAN || after - before <= (peak - before) / 5);
    served_end(&s);
}
