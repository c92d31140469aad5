/* Files: what is served, and above all what is not served. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "http/client.h"
#include "httpfile/files.h"

static char root[64], outside[80];

static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void directory(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    CHECK_EQ(mkdir(path, 0755), 0);
}

static void symbolic(const char *to, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    CHECK_EQ(symlink(to, path), 0);
}

/* root/{index.html,a.txt,large.bin,.hidden,dir/...}, and next to it files that must not be
 * served. */
static void make_tree(void)
{
    char path[256], block[1024];
    static char top[32] = "/tmp/weft-http-XXXXXX";
    if (root[0]) {
        return;
    }
    CHECK(mkdtemp(top) != NULL);
    snprintf(root, sizeof root, "%s/root", top);
    snprintf(outside, sizeof outside, "%s/secret", top);
    CHECK_EQ(mkdir(root, 0755), 0);
    put("index.html", "<h1>index</h1>\n");
    put("a.txt", "0123456789abcdef\n");
    put("empty", "");
    put("%41", "percent\n");
    put(".hidden", "SECRET\n");
    put("../secret", "SECRET\n");
    directory("dir");
    directory(".git");
    directory("bare");
    put("dir/index.html", "dir index\n");
    put("dir/b.css", "b {}\n");
    put("bare/x<y>&\".txt", "x\n");
    put("bare/.dot", "SECRET\n");
    put(".git/config", "SECRET\n");
    symbolic("../secret", "link-out");
    symbolic(outside, "link-out-absolute");
    symbolic("a.txt", "link-in");
    symbolic("dir", "link-dir");
    symbolic("..", "link-up");
    symbolic("/", "link-top");
    snprintf(path, sizeof path, "%s/fifo", root);
    CHECK_EQ(mkfifo(path, 0644), 0);
    put("large.bin", "");
    snprintf(path, sizeof path, "%s/large.bin", root);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    for (int i = 0; i < 80; i++) {
        memset(block, 'A' + i % 26, sizeof block);
        CHECK_EQ(write(fd, block, sizeof block), sizeof block);
    }
    close(fd);
}

static weft_http_files *files;
static bool blind;   /* as on a kernel without openat2 */
static bool follows; /* links are followed; not without openat2, which an emulator may lack */

static void begin(struct served *s, enum weft_driver driver, struct weft_http_files_opts opts)
{
    make_tree();
    served_make(s, driver, 1, NULL);
    opts.workers = 1;
    int err = weft_http_files_open(&files, root, &opts);
    follows = opts.follow_symlinks && err != -EOPNOTSUPP;
    if (err == -EOPNOTSUPP) {
        opts.follow_symlinks = false;
        err = weft_http_files_open(&files, root, &opts);
    }
    CHECK_EQ(err, 0);
    files->openat2 = files->openat2 && !blind;
    CHECK_EQ(weft_http_server_route(s->server, NULL, "/", weft_http_files_serve, files, NULL), 0);
    served_listen(s);
}

static void end(struct served *s)
{
    served_end(s);
    weft_http_files_close(files);
}

static struct reply *get_with(struct served *s, const char *path, const char *fields)
{
    char text[1024];
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: t\r\n%s\r\n", path, fields);
    return ask_once(s, text);
}

EACH_DRIVER(files_are_served_with_type_index_and_redirect)
{
    struct served s;
    begin(&s, driver, (struct weft_http_files_opts){0});
    for (int i = 0; i < 2; i++) { /* the second time from the cache */
        struct reply *r = ask_once(&s, get("/a.txt"));
        CHECK_STR(r->body, "0123456789abcdef\n");
        CHECK_STR(reply_field(r, "Content-Type"), "text/plain; charset=utf-8");
        CHECK(reply_field(r, "ETag") && reply_field(r, "Last-Modified"));
        CHECK_STR(ask_once(&s, get("/"))->body, "<h1>index</h1>\n");
        CHECK_STR(ask_once(&s, get("/dir/"))->body, "dir index\n");
        CHECK_STR(ask_once(&s, get("/dir/../dir/./b.css?v=2"))->body, "b {}\n");
        CHECK_STR(reply_field(ask_once(&s, get("/dir/b.css")), "Content-Type"),
                  "text/css; charset=utf-8");
        CHECK_STR(ask_once(&s, get("/%2541"))->body, "percent\n"); /* decoded once */
        CHECK_EQ(ask_once(&s, get("/%41"))->status, 404);
        CHECK_EQ(ask_once(&s, get("/empty"))->len, 0);
        CHECK_EQ(ask_once(&s, get("/empty"))->status, 200);
        r = ask_once(&s, get("/large.bin"));
        CHECK_EQ(r->len, 81920);
        CHECK(r->body[0] == 'A' && r->body[81919] == 'B');
        r = ask_once(&s, get("/dir?q"));
        CHECK_EQ(r->status, 301);
        CHECK_STR(reply_field(r, "Location"), "/dir/?q");
        CHECK_STR(reply_field(ask_once(&s, get("//dir")), "Location"), "/dir/");
        CHECK_EQ(ask_once(&s, get("/a.txt/"))->status, 404);
        CHECK_EQ(ask_once(&s, get("/bare/"))->status, 404); /* no index, no listing */
        CHECK_EQ(ask_once(&s, get("/fifo"))->status, 404);
    }
    struct client c;
    client_open(&c, &s);
    client_send(&c, "HEAD /large.bin HTTP/1.1\r\nHost: t\r\n\r\n");
    CHECK_STR(reply_field(client_reply_to(&c, true), "Content-Length"), "81920");
    CHECK_STR(client_ask(&c, get("/a.txt"))->body, "0123456789abcdef\n");
    struct reply *r = client_ask(&c, "DELETE /a.txt HTTP/1.1\r\nHost: t\r\n\r\n");
    CHECK_EQ(r->status, 405);
    CHECK_STR(reply_field(r, "Allow"), "GET, HEAD");
    client_close(&c);
    end(&s);
}

/* Larger than any socket buffer: the fiber waits for the client in the middle of the file. */
EACH_DRIVER(file_larger_than_send_buffer_is_sent_whole)
{
    enum { SIZE = 32 << 20 };
    struct served s;
    static struct client c;
    char path[128];
    make_tree();
    snprintf(path, sizeof path, "%s/huge", root);
    put("huge", "");
    CHECK_EQ(truncate(path, SIZE), 0);
    begin(&s, driver, (struct weft_http_files_opts){0});
    client_open(&c, &s);
    for (int i = 0; i < 2; i++) {
        struct reply *r = client_ask(&c, get("/huge"));
        CHECK_EQ(r->status, 200);
        CHECK(r->whole); /* it keeps the beginning only, and counts the rest */
    }
    client_send(&c, get("/huge")); /* and a response that is never read */
    CHECK(client_fill(&c));
    CHECK_EQ(weft_http_server_stop(s.server, weft_after(MS(50))), 0);
    client_close(&c);
    CHECK_EQ(unlink(path), 0);
    end(&s);
}

EACH_DRIVER(file_ranges_are_served)
{
    struct served s;
    begin(&s, driver, (struct weft_http_files_opts){0});
    struct reply *r = get_with(&s, "/a.txt", "Range: bytes=2-4\r\n");
    CHECK_EQ(r->status, 206);
    CHECK_STR(r->body, "234");
    CHECK_STR(reply_field(r, "Content-Range"), "bytes 2-4/17");
    CHECK_STR(get_with(&s, "/a.txt", "Range: bytes=-3\r\n")->body, "ef\n");
    CHECK_STR(get_with(&s, "/a.txt", "Range: bytes=14-\r\n")->body, "ef\n");
    r = get_with(&s, "/a.txt", "Range: bytes=17-\r\n");
    CHECK_EQ(r->status, 416);
    CHECK_STR(reply_field(r, "Content-Range"), "bytes */17");
    CHECK_EQ(get_with(&s, "/a.txt", "Range: lines=1-2\r\n")->status, 200);
    CHECK_EQ(get_with(&s, "/a.txt", "Range: bytes=4-2\r\n")->status, 200);
    r = get_with(&s, "/large.bin", "Range: bytes=1023-1024\r\n");
    CHECK_STR(r->body, "AB");
    r = get_with(&s, "/large.bin", "Range: bytes=0-1,1024-1025,-1\r\n");
    CHECK_EQ(r->status, 206);
    CHECK(strncmp(reply_field(r, "Content-Type"), "multipart/byteranges; boundary=", 31) == 0);
    CHECK(strstr(r->body, "Content-Range: bytes 0-1/81920\r\n\r\nAA\r\n--"));
    CHECK(strstr(r->body, "Content-Range: bytes 1024-1025/81920\r\n\r\nBB\r\n--"));
    CHECK(strstr(r->body, "Content-Range: bytes 81919-81919/81920\r\n\r\nB\r\n--"));
    CHECK_STR(r->body + r->len - 4, "--\r\n");
    char many[512] = "Range: bytes=0-0"; /* too many ranges are ignored */
    for (int i = 1; i < 17; i++) {
        sprintf(many + strlen(many), ",%d-%d", i * 2, i * 2);
    }
    strcat(many, "\r\n");
    CHECK_EQ(get_with(&s, "/large.bin", many)->status, 200);
    end(&s);
}

EACH_DRIVER(file_preconditions_are_honoured)
{
    struct served s;
    char fields[256], etag[64], date[64];
    begin(&s, driver, (struct weft_http_files_opts){0});
    struct reply *r = ask_once(&s, get("/a.txt"));
    snprintf(etag, sizeof etag, "%s", reply_field(r, "ETag"));
    snprintf(date, sizeof date, "%s", reply_field(r, "Last-Modified"));
    snprintf(fields, sizeof fields, "If-None-Match: \"x\", %s\r\n", etag);
    r = get_with(&s, "/a.txt", fields);
    CHECK_EQ(r->status, 304);
    CHECK_STR(reply_field(r, "ETag"), etag);
    CHECK(!reply_field(r, "Content-Length"));
    CHECK_EQ(get_with(&s, "/a.txt", "If-None-Match: \"x\"\r\n")->status, 200);
    snprintf(fields, sizeof fields, "If-Modified-Since: %s\r\n", date);
    CHECK_EQ(get_with(&s, "/a.txt", fields)->status, 304);
    CHECK_EQ(get_with(&s, "/a.txt", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n")->status,
             200);
    CHECK_EQ(get_with(&s, "/a.txt", "If-Match: \"x\"\r\n")->status, 412);
    CHECK_EQ(
        get_with(&s, "/a.txt", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n")->status,
        412);
    snprintf(fields, sizeof fields, "Range: bytes=0-0\r\nIf-Range: %s\r\n", etag);
    CHECK_EQ(get_with(&s, "/a.txt", fields)->status, 206);
    CHECK_EQ(get_with(&s, "/a.txt", "Range: bytes=0-0\r\nIf-Range: \"x\"\r\n")->status, 200);
    end(&s);
}

/* A change through an already writable mapping does not show in any field of stat. */
EACH_DRIVER(uncached_file_is_read_on_every_request)
{
    struct served s;
    char path[128];
    put("mapped", "one\n");
    snprintf(path, sizeof path, "%s/mapped", root);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char *bytes = mmap(NULL, 4, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(bytes != MAP_FAILED);
    memcpy(bytes, "two\n", 4);
    begin(&s, driver, (struct weft_http_files_opts){.revalidate_ns = -1});
    CHECK_STR(ask_once(&s, get("/mapped"))->body, "two\n");
    memcpy(bytes, "new\n", 4);
    CHECK_STR(ask_once(&s, get("/mapped"))->body, "new\n");
    end(&s);
    CHECK_EQ(munmap(bytes, 4), 0);
    CHECK_EQ(close(fd), 0);
    CHECK_EQ(unlink(path), 0);
}

EACH_DRIVER(changed_file_is_served_after_revalidation)
{
    struct served s;
    begin(&s, driver, (struct weft_http_files_opts){.revalidate_ns = -1});
    put("change", "one\n");
    CHECK_STR(ask_once(&s, get("/change"))->body, "one\n");
    put("change", "two, longer\n");
    CHECK_STR(ask_once(&s, get("/change"))->body, "two, longer\n");
    char path[128], other[128];
    snprintf(path, sizeof path, "%s/change", root);
    snprintf(other, sizeof other, "%s/other", root);
    put("other", "one more!!!\n");
    CHECK_EQ(rename(other, path), 0);
    CHECK_STR(ask_once(&s, get("/change"))->body, "one more!!!\n");
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(ask_once(&s, get("/change"))->status, 404);
    end(&s);
    begin(&s, driver, (struct weft_http_files_opts){.revalidate_ns = MS(50)});
    put("change", "one\n");
    CHECK_STR(ask_once(&s, get("/change"))->body, "one\n");
    put("change", "second\n"); /* longer: within one tick of the clock, only the size differs */
    double from = check_seconds();
    while (strcmp(ask_once(&s, get("/change"))->body, "second\n") != 0) {
        CHECK(check_seconds() - from < 120);
    }
    CHECK_EQ(unlink(path), 0);
    end(&s);
}

static void put_large(const char *name, off_t size)
{
    char path[256];
    put(name, "");
    snprintf(path, sizeof path, "%s/%s", root, name);
    CHECK_EQ(truncate(path, size), 0);
}

/* How many of the tree's files this process has open; `removed`: of files no longer in the tree. */
static int count_open(bool removed)
{
    int count = 0;
    for (int fd = 0; fd < 1000; fd++) {
        char name[64], to[256];
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(name, to, sizeof to - 1);
        to[n > 0 ? n : 0] = '\0';
        if (strncmp(to, root, strlen(root)) == 0 && strstr(to, "/many-")) {
            count += !removed || strstr(to, " (deleted)");
        }
    }
    return count;
}

/* However many files are requested, descriptors are left for connections. */
EACH_DRIVER(file_cache_limits_open_descriptors)
{
    enum { FILES = 100 };
    struct served s;
    struct rlimit old, few;
    char name[32];
    make_tree();
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "many-%d", i);
        put_large(name, 20000);
    }
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    few.rlim_cur = 64;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    begin(&s, driver, (struct weft_http_files_opts){.revalidate_ns = S(100)});
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "/many-%d", i);
        CHECK_EQ(ask_once(&s, get(name))->len, 20000);
        CHECK(count_open(false) <= 64 / 8);
    }
    CHECK_EQ(count_open(false), 64 / 8);
    /* No descriptor is left: cached files are closed for the requested one. */
    static struct client c;
    client_open(&c, &s);
    CHECK_EQ(client_ask(&c, get("/many-0"))->status, 200);
    while (served_stats(&s).open != 1) { /* the earlier ones close theirs first */
        sched_yield();
    }
    int rest[64], taken = 0;
    while ((rest[taken] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
        taken++;
    }
    CHECK_EQ(client_ask(&c, get("/many-1"))->len, 20000);
    CHECK_EQ(count_open(false), 1);
    while (taken) {
        close(rest[--taken]);
    }
    client_close(&c);
    end(&s);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* After the next check of any other file, a removed file is no longer open, and its space is
 * free. */
EACH_DRIVER(removed_file_is_closed_by_cache)
{
    struct served s;
    char path[128];
    begin(&s, driver, (struct weft_http_files_opts){.revalidate_ns = MS(1)});
    put_large("many-gone", 20000);
    put_large("many-other", 20000);
    CHECK_EQ(ask_once(&s, get("/many-gone"))->len, 20000);
    snprintf(path, sizeof path, "%s/many-gone", root);
    CHECK_EQ(unlink(path), 0);
    double from = check_seconds();
    do {
        CHECK_EQ(ask_once(&s, get("/many-other"))->len, 20000);
        CHECK(check_seconds() - from < 120);
    } while (count_open(true));
    CHECK_EQ(ask_once(&s, get("/many-gone"))->status, 404);
    end(&s);
}

/* Whatever modification time a file was given. */
TEST(file_times_beyond_http_dates_are_clamped)
{
    static const struct {
        int64_t time;
        const char *date;
    } times[] = {{-1, "Thu, 01 Jan 1970 00:00:00 GMT"},
                 {0, "Thu, 01 Jan 1970 00:00:00 GMT"},
                 {784111777, "Sun, 06 Nov 1994 08:49:37 GMT"},
                 {INT64_C(253402300799), "Fri, 31 Dec 9999 23:59:59 GMT"},
                 {INT64_C(253402300800), "Fri, 31 Dec 9999 23:59:59 GMT"},
                 {INT64_MAX, "Fri, 31 Dec 9999 23:59:59 GMT"}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        struct weft__http_file file = {.st.st_mtim.tv_sec = times[i].time};
        char date[WEFT_HTTP_DATE_BYTES + 1];
        weft__http_file_date(&file, date);
        CHECK_STR(date, times[i].date);
    }
}

EACH_DRIVER(listings_links_and_dotfiles_are_off_by_default)
{
    struct served s;
    begin(&s, driver, (struct weft_http_files_opts){0});
    static const char *const links[] = {
        "/link-in",           "/link-dir/b.css",      "/link-out",      "/link-up/",
        "/link-out-absolute", "/link-top/etc/passwd", "/link-up/secret"};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        CHECK_EQ(ask_once(&s, get(links[i]))->status, 404);
    }
    CHECK_EQ(ask_once(&s, get("/.hidden"))->status, 404);
    CHECK_EQ(ask_once(&s, get("/.git/config"))->status, 404);
    end(&s);
    begin(
        &s, driver,
        (struct weft_http_files_opts){.listing = true, .follow_symlinks = true, .dotfiles = true});
    struct reply *r = ask_once(&s, get("/bare/"));
    CHECK(strstr(r->body,
                 "<li><a href=\"./x%3Cy%3E%26%22.txt\">x&#60;y&#62;&#38;&#34;.txt</a></li>"));
    CHECK(strstr(r->body, ".dot"));
    CHECK_EQ(ask_once(&s, get("/bare/x%3Cy%3E%26%22.txt"))->status, 200);
    if (follows) {
        CHECK_STR(ask_once(&s, get("/link-in"))->body, "0123456789abcdef\n");
        CHECK_STR(ask_once(&s, get("/link-dir/b.css"))->body, "b {}\n");
    }
    CHECK_STR(ask_once(&s, get("/.hidden"))->body, "SECRET\n");
    for (size_t i = 2; i < sizeof links / sizeof *links; i++) { /* links out of the root */
        CHECK_EQ(ask_once(&s, get(links[i]))->status, 404);
    }
    end(&s);
    begin(&s, driver, (struct weft_http_files_opts){.listing = true});
    r = ask_once(&s, get("/bare/"));
    CHECK(strstr(r->body, "x&#60;y") && !strstr(r->body, ".dot"));
    end(&s);
}

/* Worker 0 of one pool and worker 0 of another are two threads: only one of them has the cache. */
EACH_DRIVER(servers_of_two_pools_share_directory_safely)
{
    struct served s, other;
    begin(&s, driver, (struct weft_http_files_opts){.revalidate_ns = WEFT_FOREVER});
    served_make(&other, driver, 1, NULL);
    CHECK_EQ(weft_http_server_route(other.server, NULL, "/", weft_http_files_serve, files, NULL),
             0);
    served_listen(&other);
    put("shared", "old\n");
    CHECK_STR(ask_once(&s, get("/shared"))->body, "old\n");
    CHECK_STR(ask_once(&other, get("/shared"))->body, "old\n");
    put("shared", "new\n");
    CHECK_STR(ask_once(&s, get("/shared"))->body, "old\n");
    CHECK_STR(ask_once(&other, get("/shared"))->body, "new\n");
    served_end(&other);
    end(&s);
}

/* Too many entries to list: the listed ones are still sorted. */
TEST(truncated_listing_is_sorted)
{
    enum { TOO_MANY = 10001 };
    struct served s;
    char from[128], to[128], last[16] = "";
    make_tree();
    directory("full");
    snprintf(from, sizeof from, "%s/a.txt", root);
    for (int i = 0; i < TOO_MANY; i++) {
        snprintf(to, sizeof to, "%s/full/n%07d", root, (int)(i * 7919L % TOO_MANY));
        CHECK_EQ(link(from, to), 0);
    }
    begin(&s, WEFT_DRIVER_EPOLL, (struct weft_http_files_opts){.listing = true});
    int shown = 0;
    for (const char *at = ask_once(&s, get("/full/"))->body; (at = strstr(at, "./n")); at++) {
        CHECK(strncmp(last, at + 2, 8) < 0);
        memcpy(last, at + 2, 8);
        shown++;
    }
    CHECK(shown > 1000); /* as many as the client has space for */
    end(&s);
    for (int i = 0; i < TOO_MANY; i++) {
        snprintf(to, sizeof to, "%s/full/n%07d", root, i);
        CHECK_EQ(unlink(to), 0);
    }
    snprintf(to, sizeof to, "%s/full", root);
    CHECK_EQ(rmdir(to), 0);
}

/* Where the kernel cannot resolve below a directory, the path is walked component by component. */
EACH_DRIVER(files_are_served_beneath_root_without_openat2)
{
    struct served s;
    blind = true;
    begin(&s, driver, (struct weft_http_files_opts){.dotfiles = true});
    blind = false;
    CHECK_STR(ask_once(&s, get("/"))->body, "<h1>index</h1>\n");
    CHECK_STR(ask_once(&s, get("/dir/b.css"))->body, "b {}\n");
    CHECK_EQ(ask_once(&s, get("/dir"))->status, 301);
    CHECK_STR(ask_once(&s, get("/.git/config"))->body, "SECRET\n");
    static const char *const none[] = {
        "/link-in", "/link-dir/b.css", "/link-out", "/link-up/secret", "/link-top/etc/passwd",
        "/fifo",    "/a.txt/x",        "/nowhere/x"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        CHECK_EQ(ask_once(&s, get(none[i]))->status, 404);
    }
    char name[600] = "/";
    memset(name + 1, 'n', 300);
    CHECK_EQ(ask_once(&s, get(name))->status, 404);
    end(&s);
}

/* Every spelling of "..", of "/" and of targets outside: none of them leaves the root. */
EACH_DRIVER(no_path_spelling_escapes_root)
{
    static const char *const up[] = {
        "..",
        "%2e%2e",
        "%2E%2e",
        ".%2e",
        "%2e.",
        "%252e%252e",
        "%%32%65%%32%65",
        "..%00",
        "%c0%ae%c0%ae",
        "%c0%2e.",
        "%e0%80%ae%e0%80%ae",
        "..;",
        "..%20",
        "%u002e%u002e",
        "..%ff",
        "...",
        "....",
        ". .",
        "..%0d%0a",
        "%2e%2e%5c",
        "..%5c",
    };
    static const char *const slash[] = {
        "/",    "%2f",   "%2F",    "//",        "/./", "%5c",  "%5C",
        "\\\\", "%252f", "%c0%af", "%e0%80%af", ";/",  "%00/", "/%2e/",
    };
    static const char *const target[] = {"secret", "root/.hidden", "etc/passwd"};
    struct served s;
    int tried = 0;
    begin(&s, driver, (struct weft_http_files_opts){.follow_symlinks = driver == WEFT_DRIVER_POLL});
    for (size_t u = 0; u < sizeof up / sizeof *up; u++) {
        for (size_t l = 0; l < sizeof slash / sizeof *slash; l++) {
            for (size_t t = 0; t < sizeof target / sizeof *target; t++) {
                static const char *const before[] = {"/", "/dir/"};
                for (int b = 0; b < 2; b++) {
                    char path[256] = "", part[64];
                    strcat(path, before[b]);
                    snprintf(part, sizeof part, "%s%s", up[u], slash[l]);
                    for (int n = 0; n <= b + (t == 2) * 5; n++) {
                        strcat(path, part);
                    }
                    strcat(path, target[t]);
                    struct reply *r = ask_once(&s, get(path));
                    if (r->status != 400 && r->status != 404) {
                        printf("    %s: %d\n", path, r->status);
                    }
                    CHECK(r->status == 400 || r->status == 404);
                    CHECK(!strstr(r->body, "SECRET") && !strstr(r->body, "root:"));
                    tried++;
                }
            }
        }
    }
    printf("    %d spellings\n", tried);
    CHECK(tried >= 200);
    end(&s);
}

/* A name that alternates between a file and a link that leads out of the root. */
static atomic_bool over;

static void *swap_names(void *arg)
{
    char name[128], link[128];
    snprintf(name, sizeof name, "%s/swapped", root);
    snprintf(link, sizeof link, "%s/swapped-link", root);
    while (!atomic_load(&over)) {
        CHECK(symlink(outside, link) == 0 || errno == EEXIST);
        CHECK_EQ(rename(link, name), 0);
        put("swapped-file", "public\n");
        char file[128];
        snprintf(file, sizeof file, "%s/swapped-file", root);
        CHECK_EQ(rename(file, name), 0);
    }
    return arg;
}

EACH_DRIVER(path_swapped_for_symlink_never_escapes_root)
{
    struct served s;
    struct client c;
    pthread_t thread;
    int seen = 0;
    begin(&s, driver, (struct weft_http_files_opts){.revalidate_ns = -1});
    put("swapped", "public\n");
    atomic_store(&over, false);
    CHECK_EQ(pthread_create(&thread, NULL, swap_names, NULL), 0);
    for (int i = 0; i < 20; i++) {
        client_open(&c, &s);
        for (int j = 0; j < 100; j++) {
            struct reply *r = client_ask(&c, get("/swapped"));
            CHECK(r->status == 404 || (r->status == 200 && strcmp(r->body, "public\n") == 0));
            seen += r->status == 200;
        }
        client_close(&c);
    }
    atomic_store(&over, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    printf("    %d of 2000 found the file\n", seen);
    end(&s);
}

TEST(unservable_directories_are_refused)
{
    weft_http_files *none;
    make_tree();
    char path[128];
    snprintf(path, sizeof path, "%s/nowhere", root);
    CHECK_EQ(weft_http_files_open(&none, path, NULL), -ENOENT);
    snprintf(path, sizeof path, "%s/a.txt", root);
    CHECK_EQ(weft_http_files_open(&none, path, NULL), -ENOTDIR);
    CHECK_EQ(weft_http_files_open(&none, root, &(struct weft_http_files_opts){.prefix = "x"}),
             -EINVAL);
    weft_http_files *widest;
    CHECK_EQ(
        weft_http_files_open(&widest, root, &(struct weft_http_files_opts){.workers = UINT_MAX}),
        0); /* no pool is so large */
    weft_http_files_close(widest);
    weft_http_files_close(NULL);
    CHECK_STR(weft__http_content_type("a/b.HTML"), "text/html; charset=utf-8");
    CHECK_STR(weft__http_content_type("a.d/b"), "application/octet-stream");
    CHECK_STR(weft__http_content_type("x.avi"), "video/x-msvideo");
    char remove[160];
    snprintf(remove, sizeof remove, "rm -rf '%.*s'", (int)(strrchr(root, '/') - root), root);
    CHECK_EQ(system(remove), 0);
}
