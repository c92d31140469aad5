/* HTTP through libcurl's easy interface, from a slow server. */
/* needs: libcurl */
/* not under: tsan valgrind qemu */
/* serial */
#include <curl/curl.h>

#include "hook/server.h"

enum { FIBERS = 30, BYTES = 300000 };

static struct server server;
static char url[64];

static const char program[] = "import http.server, time\n"
                              "class Slow(http.server.BaseHTTPRequestHandler):\n"
                              "    protocol_version = 'HTTP/1.1'\n"
                              "    def do_GET(self):\n"
                              "        time.sleep(1)\n"
                              "        body = b'weft ' * 60000\n"
                              "        self.send_response(200)\n"
                              "        self.send_header('Content-Length', str(len(body)))\n"
                              "        self.end_headers()\n"
                              "        self.wfile.write(body)\n"
                              "    def log_message(self, *args):\n"
                              "        pass\n"
                              "class Server(http.server.ThreadingHTTPServer):\n"
                              "    request_queue_size = 100\n"
                              "server = Server(('127.0.0.1', 0), Slow)\n"
                              "with open('port.new', 'w') as f:\n"
                              "    f.write(str(server.server_address[1]))\n"
                              "import os\n"
                              "os.rename('port.new', 'port')\n"
                              "server.serve_forever()\n";

static void start(void)
{
    int status, port = 0;
    char path[96];
    if (access("/usr/bin/python3", X_OK) != 0) {
        check_skip("no python3");
    }
    server_init(&server, NULL);
    snprintf(path, sizeof path, "%s/port", server.folder);
    const char *const serve[] = {"python3", "-c", program, NULL};
    server.pid = server_run(&server, serve);
    for (int tries = 0; port == 0; tries++) {
        FILE *f = fopen(path, "r");
        if (f) {
            CHECK_EQ(fscanf(f, "%d", &port), 1);
            fclose(f);
        } else if (tries > SERVER_TRIES || waitpid(server.pid, &status, WNOHANG) != 0) {
            server_fail(&server, "the HTTP server did not start");
        } else {
            usleep(50000);
        }
    }
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", port);
}

static size_t count(char *data, size_t one, size_t n, void *arg)
{
    (void)data;
    *(size_t *)arg += one * n;
    return one * n;
}

static void *fetches(void *arg)
{
    size_t got = 0;
    long status = 0;
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &got);
    for (int i = 0; i < 2; i++) { /* the second request on the same connection */
        got = 0;
        CHECK_EQ(curl_easy_perform(easy), CURLE_OK);
        curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
        CHECK_EQ(status, 200);
        CHECK_EQ(got, BYTES);
    }
    curl_easy_cleanup(easy);
    return arg;
}

static void *gives_up(void *arg)
{
    size_t got = 0;
    CURL *easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, 50L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, count);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &got);
    int64_t from = weft_now();
    CURLcode code = curl_easy_perform(easy);
    /* A machine may be so slow that the response arrives before the timeout is noticed. */
    CHECK(code == CURLE_OPERATION_TIMEDOUT || (code == CURLE_OK && hooked_since(from) >= 1));
    curl_easy_cleanup(easy);
    return arg;
}

TEST(fibers_fetch_concurrently_through_libcurl)
{
    CHECK_EQ(curl_global_init(CURL_GLOBAL_ALL), 0);
    start();
    for (int i = WEFT_DRIVER_EPOLL; i <= WEFT_DRIVER_POLL; i++) {
        if (drivers_have((enum weft_driver)i)) {
            /* Sequentially: 60 s. */
            double seconds = server_crowd_within(30, (enum weft_driver)i, FIBERS, fetches);
            printf("  on %s: %d fibers, 2 fetches of 1 s each: %.2f s\n", drivers_names[i], FIBERS,
                   seconds);
            server_crowd_on((enum weft_driver)i, 5, gives_up);
        }
    }
    server_stop(&server, SIGTERM);
    curl_global_cleanup();
}
