/* Memory runs out at any allocation while a server is created, while it listens and while it
 * serves. The result is an error or a response (a good one or 503; the connection may end within a
 * good response, but never without one), nothing half-created, nothing leaked, and good responses
 * again afterwards. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "context/sanitizer.h"
#include "http/client.h"

#if WEFT__ASAN
#include <sanitizer/lsan_interface.h>
#endif

static char root[64] = "/tmp/weft-nomem-XXXXXX";

struct site {
    struct served s;
    weft_http_files *files;
    int errors;
};

/* The only errors that a failed allocation may cause. */
static bool refused(struct site *site, int err)
{
    CHECK(err == 0 || err == -ENOMEM || err == -EAGAIN);
    site->errors += err != 0;
    return err != 0;
}

static void make_root(void)
{
    char path[128];
    CHECK(mkdtemp(root) != NULL);
    for (int large = 0; large < 2; large++) {
        snprintf(path, sizeof path, "%s/%s", root, large ? "large" : "small");
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        CHECK(fd >= 0);
        CHECK_EQ(ftruncate(fd, large ? 100000 : 10), 0);
        close(fd);
    }
}

static int drain(weft_http *req, void *arg)
{
    char buf[4096];
    ssize_t n;
    (void)arg;
    while ((n = weft_http_read(req, buf, sizeof buf, WEFT_FOREVER)) > 0) {
    }
    return n < 0 ? (int)n : weft_http_respond(req, 200, "text/plain", "read", 4);
}

/* Returns false on an error, with nothing left over. */
static bool open_site(struct site *site, enum weft_balance balance)
{
    struct served *s = &site->s;
    struct weft_http_server_opts opts = {.pool = s->pool, .balance = balance, .limits.fields = 200};
    const struct weft_http_files_opts with = {.listing = true, .workers = 2};
    site->files = NULL;
    if (refused(site, weft_http_server_create(&s->server, &opts))) {
        return false;
    }
    bool good =
        !refused(site, weft_http_files_open(&site->files, root, &with)) &&
        !refused(site, weft_http_server_route(s->server, NULL, "/", weft_http_files_serve,
                                              site->files, NULL)) &&
        !refused(site, weft_http_server_route(s->server, "POST", "/drain", drain, NULL, NULL)) &&
        !refused(site, weft_http_server_listen(s->server, &s->at, "127.0.0.1:0"));
    if (!good) {
        CHECK_EQ(weft_http_server_stop(s->server, 0), 0);
        weft_http_server_destroy(s->server);
        weft_http_files_close(site->files);
    }
    return good;
}

static void close_site(struct site *site)
{
    CHECK_EQ(weft_http_server_stop(site->s.server, weft_after(S(120))), 0);
    CHECK_EQ(served_stats(&site->s).open, 0);
    weft_http_server_destroy(site->s.server);
    weft_http_files_close(site->files);
}

/* How many of these were not answered with a 200. */
static int ask_everything(const struct served *s)
{
    static char large_head[9000], long_path[1000];
    if (!large_head[0]) {
        memset(long_path, 'p', sizeof long_path - 1);
        memcpy(long_path, "/small?", 7);
        snprintf(large_head, sizeof large_head,
                 "GET /small HTTP/1.1\r\nHost: t\r\nX: %08000d\r\n\r\n", 0);
    }
    const char *const requests[] = {
        "GET /small HTTP/1.1\r\nHost: t\r\n\r\n",
        "GET /large HTTP/1.1\r\nHost: t\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: t\r\n\r\n",
        "POST /drain HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        large_head,
        get(long_path),
    };
    int failed = 0;
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        const struct reply *r = ask_once(s, requests[i]);
        CHECK(r->status == 503 || r->status == 200);
        failed += r->status != 200 || !r->whole;
    }
    return failed;
}

struct failure {
    long k;
    bool sticky;
    enum weft_driver driver;
    enum weft_balance balance;
};

enum { UNTOUCHED = 10, SURVIVED = 11, REFUSED = 12 };

/* The site is created, used and destroyed while memory runs out, in a process in which nothing was
 * created before. */
static void fail_in_child(void *arg)
{
    const struct failure *f = arg;
    struct site site = {0};
    const struct weft_pool_opts opts = {.workers = 2, .driver = f->driver};
    CHECK_EQ(weft_pool_create(&site.s.pool, &opts), 0);
    CHECK_EQ(weft_pool_start(site.s.pool), 0);
    weft__alloc_fail_after(f->k, f->sticky);
    bool made = open_site(&site, f->balance);
    int failed = made ? ask_everything(&site.s) : 0;
    bool reached = weft__alloc_requests() >= f->k;
    weft__alloc_fail_after(0, false);
    CHECK(reached || (made && !failed));
    if (!made) {
        CHECK(open_site(&site, f->balance));
    }
    CHECK_EQ(ask_everything(&site.s), 0);
    close_site(&site);
    CHECK_EQ(weft_pool_stop(site.s.pool, WEFT_STOP_DRAIN, weft_after(S(120))), 0);
    weft_pool_destroy(site.s.pool);
#if WEFT__ASAN
    CHECK_EQ(__lsan_do_recoverable_leak_check(), 0);
#endif
    _exit(!reached ? UNTOUCHED : failed || !made ? REFUSED : SURVIVED);
}

static void sweep(struct failure f)
{
    long refusals = 0;
    for (f.k = 1;; f.k++) {
        char err[CHECK_ERR];
        int status = check_child(fail_in_child, &f, err, sizeof err);
        if (!WIFEXITED(status) || WEXITSTATUS(status) < UNTOUCHED) {
            printf("request %ld, sticky %d:\n%s\n", f.k, f.sticky, err);
            fflush(stdout);
            CHECK(!"the child failed");
        }
        if (WEXITSTATUS(status) == UNTOUCHED) {
            break;
        }
        refusals += WEXITSTATUS(status) == REFUSED;
        CHECK(f.k < 1000);
    }
    printf("    %ld requests for memory, %ld of them lead to an error\n", f.k - 1, refusals);
    CHECK(f.k > 10 && refusals > 0);
}

EACH_DRIVER(server_survives_failure_of_any_allocation)
{
    if (access(root, F_OK) != 0) {
        make_root();
    }
    sweep((struct failure){.driver = driver, .balance = WEFT_BALANCE_REUSEPORT});
    sweep((struct failure){.driver = driver, .sticky = true});
}

TEST(cleanup_removes_test_files)
{
    char remove[128];
    snprintf(remove, sizeof remove, "rm -rf '%s'", root);
    CHECK_EQ(system(remove), 0);
}
