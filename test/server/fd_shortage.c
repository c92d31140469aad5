/* Few descriptors: idle clients do not keep other clients out, and files are served. */
/* serial */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "http/client.h"

enum { LIMIT = 64, SILENT = 100, GOOD = 300 };

static char dir[] = "/tmp/weft-test-shortage-XXXXXX";
static struct rlimit before;

static void limit(void)
{
    struct rlimit low;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = LIMIT;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
}

static void unlimit(void)
{
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void path_of(char *out, size_t size, int i)
{
    snprintf(out, size, "%s/f%d.txt", dir, i);
}

static void write_file(int i, const char *text)
{
    char path[64];
    path_of(path, sizeof path, i);
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void make_files(int n)
{
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    for (int i = 0; i < n; i++) {
        char text[32];
        snprintf(text, sizeof text, "file %d", i);
        write_file(i, text);
    }
}

static void remove_files(int n)
{
    for (int i = 0; i < n; i++) {
        char path[64];
        path_of(path, sizeof path, i);
        unlink(path);
    }
    CHECK_EQ(rmdir(dir), 0);
}

/* --- clients: another process, which has enough descriptors ----------------------------------- */

/* Alternately a client that sends nothing, and a client that has sent a request before. */
static void open_silent(const struct weft_addr *at)
{
    static struct client c;
    for (int i = 0; i < SILENT; i++) {
        client_open_to(&c, at);
        if (i % 2) {
            client_send(&c, get("/f0.txt"));
        }
    }
    client_reply(&c); /* or end of stream: all of them have been accepted */
}

/* An acceptor waits 100 ms for evicted connections to close, which may be too short on a machine
 * that is busy with other things: then there is a 503, and the client tries again. */
static struct reply *ask_patiently(struct client *c, const struct weft_addr *at,
                                   const char *request)
{
    client_open_to(c, at);
    struct reply *r = client_ask(c, request);
    for (int tries = 0; r->status == 503 && tries < 10; tries++) {
        client_close(c);
        poll(NULL, 0, 100);
        client_open_to(c, at);
        r = client_ask(c, request);
    }
    return r;
}

static void ask_all(const struct weft_addr *at)
{
    static struct client c;
    char path[32], text[32];
    for (int i = 0; i < GOOD; i++) {
        snprintf(path, sizeof path, "/f%d.txt", i);
        snprintf(text, sizeof text, "file %d", i);
        struct reply *r = ask_patiently(&c, at, get(path));
        CHECK_EQ(r->status, 200);
        CHECK_STR(r->body, text);
        client_close(&c);
    }
}

/* Reads from the pipe where to connect. */
static pid_t start_clients(int *tell)
{
    int ends[2];
    fflush(NULL);
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct weft_addr at;
        close(ends[1]);
        CHECK_EQ(read(ends[0], &at, sizeof at), sizeof at);
        open_silent(&at);
        ask_all(&at);
        _exit(0);
    }
    close(ends[0]);
    *tell = ends[1];
    return pid;
}

static void serve_beside_silent_clients(enum weft_driver driver, const char *address,
                                        const struct weft_http_server_limits *limits)
{
    struct served s;
    weft_http_files *files;
    struct weft_http_server_opts opts = {.limits = *limits};
    int tell, status;
    make_files(GOOD);
    pid_t pid = start_clients(&tell);
    limit();
    opts.limits.idle_ns = opts.limits.header_ns = S(3600);
    opts.limits.linger_ns = MS(1);
    opts.limits.grace_ns = MS(1);
    served_make(&s, driver, 2, &opts);
    CHECK_EQ(weft_http_files_open(&files, dir, &(struct weft_http_files_opts){.workers = 2}), 0);
    CHECK_EQ(weft_http_server_route(s.server, NULL, "/", weft_http_files_serve, files, NULL), 0);
    CHECK_EQ(weft_http_server_listen(s.server, &s.at, address), 0);
    CHECK_EQ(write(tell, &s.at, sizeof s.at), sizeof s.at);
    CHECK_EQ(close(tell), 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    struct weft_http_stats stats = served_stats(&s);
    printf("    %llu silent connections closed, %llu refused\n",
           (unsigned long long)stats.idle_shed, (unsigned long long)stats.refused);
    CHECK(stats.idle_shed > 0);
    served_end(&s);
    weft_http_files_close(files);
    unlimit();
    remove_files(GOOD);
}

EACH_DRIVER(idle_clients_do_not_block_new_clients_at_fd_limit)
{
    serve_beside_silent_clients(driver, "127.0.0.1:0", &(struct weft_http_server_limits){0});
    serve_beside_silent_clients(driver, "unix:@", &(struct weft_http_server_limits){0});
}

/* The limits are above the available number: descriptors run out first, except for a reserve. */
EACH_DRIVER(descriptor_reserve_is_kept_for_files)
{
    const struct weft_http_server_limits limits = {.connections = 1000, .per_address = 1000};
    serve_beside_silent_clients(driver, "127.0.0.1:0", &limits);
}

/* --- cached files ----------------------------------------------------------------------------- */

static int fill[LIMIT], filled;

static void exhaust(void)
{
    int fd;
    limit();
    while ((fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0) {
        fill[filled++] = fd;
    }
    CHECK_EQ(errno, EMFILE);
}

static void relieve(void)
{
    while (filled > 0) {
        close(fill[--filled]);
    }
    unlimit();
}

EACH_DRIVER(cached_file_is_served_without_free_descriptor)
{
    struct served s;
    static struct client c;
    weft_http_files *files, *strict;
    make_files(2);
    served_make(&s, driver, 1, NULL);
    CHECK_EQ(weft_http_files_open(&files, dir,
                                  &(struct weft_http_files_opts){.revalidate_ns = 1, .workers = 1}),
             0);
    CHECK_EQ(weft_http_files_open(&strict, dir,
                                  &(struct weft_http_files_opts){
                                      .revalidate_ns = -1, .prefix = "/strict/", .workers = 1}),
             0);
    CHECK_EQ(weft_http_server_route(s.server, NULL, "/", weft_http_files_serve, files, NULL), 0);
    CHECK_EQ(
        weft_http_server_route(s.server, NULL, "/strict/", weft_http_files_serve, strict, NULL), 0);
    served_listen(&s);
    client_open(&c, &s);
    CHECK_STR(client_ask(&c, get("/f0.txt"))->body, "file 0");
    CHECK_STR(client_ask(&c, get("/strict/f0.txt"))->body, "file 0");
    write_file(0, "changed 0");
    exhaust();
    for (int i = 0; i < 3; i++) {
        struct reply *r = client_ask(&c, get("/f0.txt"));
        CHECK_EQ(r->status, 200);
        CHECK_STR(r->body, "file 0"); /* unchanged */
    }
    CHECK_EQ(client_ask(&c, get("/f1.txt"))->status, 503);
    CHECK_EQ(client_ask(&c, get("/strict/f0.txt"))->status, 503);
    relieve();
    CHECK_STR(client_ask(&c, get("/f0.txt"))->body, "changed 0");
    CHECK_STR(client_ask(&c, get("/f1.txt"))->body, "file 1");
    client_close(&c);
    served_end(&s);
    weft_http_files_close(files);
    weft_http_files_close(strict);
    remove_files(2);
}

/* --- default limits --------------------------------------------------------------------------- */

TEST(default_connection_limit_follows_descriptor_limit)
{
    static struct client c[LIMIT];
    struct served s;
    limit();
    served_make(&s, WEFT_DRIVER_EPOLL, 1, NULL);
    unlimit();
    served_route(&s, NULL, "/", measure);
    served_listen(&s);
    for (int i = 0; i < 17; i++) { /* half of 64 less 32, and one more */
        client_open(&c[i], &s);
        CHECK_EQ(client_ask(&c[i], get("/"))->status, 200);
        CHECK_EQ(served_stats(&s).idle_shed, i == 16 ? 1 : 0);
    }
    for (int i = 0; i < 17; i++) {
        client_close(&c[i]);
    }
    served_end(&s);
}
