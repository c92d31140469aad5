/* Echoes over TCP until enough of them were correct, whatever fails in between; no descriptor
 * leaks. test/io/inject runs it with failing system calls. */
/* not under: valgrind qemu */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "check.h"
#include "io/descriptors.h"

#define CLIENTS 4
#define ECHOES 10
#define ATTEMPTS 2000
#define WAIT_LIMIT 60000000000 /* ns */

static char address[WEFT_ADDR_STRLEN];
static int listener;
static _Atomic(int) failures;
static _Atomic(bool) over;

static void failed(const char *what, int64_t err)
{
    atomic_fetch_add(&failures, 1);
    if (getenv("SURVIVE_TALK")) {
        fprintf(stderr, "%s: %s\n", what, strerror((int)-err));
    }
    weft_sleep(weft_after(100000));
}

static void *serve(void *arg)
{
    char buf[64];
    int fd = (int)(intptr_t)arg;
    ssize_t n;
    while ((n = weft_read(fd, buf, sizeof buf, weft_after(WAIT_LIMIT))) > 0) {
        n = weft_write_all(fd, buf, (size_t)n, NULL, weft_after(WAIT_LIMIT));
        if (n < 0) {
            break;
        }
    }
    if (n < 0) {
        failed("serve", n);
    }
    int err = weft_close(fd);
    CHECK(err == 0);
    return NULL;
}

static void *accepts(void *arg)
{
    while (!atomic_load(&over)) {
        int fd = weft_accept(listener, NULL, weft_after(100000000));
        if (fd >= 0 && weft_spawn(NULL, serve, (void *)(intptr_t)fd, NULL) != 0) {
            weft_close(fd);
        } else if (fd < 0 && fd != -ETIMEDOUT) {
            failed("accept", fd);
        }
    }
    return arg;
}

/* Returns 0 if the reply equals the request. */
static int echo_once(void)
{
    char back[8];
    int fd = weft_dial(address, NULL, weft_after(WAIT_LIMIT));
    if (fd < 0) {
        return fd;
    }
    int err = weft_write_all(fd, "message", 8, NULL, weft_after(WAIT_LIMIT));
    err = err ? err : weft_read_full(fd, back, 8, NULL, weft_after(WAIT_LIMIT));
    CHECK(err || strcmp(back, "message") == 0);
    CHECK_EQ(weft_close(fd), 0);
    return err;
}

static void *client(void *arg)
{
    int good = 0;
    for (int i = 0; i < ATTEMPTS && good < ECHOES; i++) {
        int err = echo_once();
        if (err) {
            failed("client", err);
        }
        good += err == 0;
    }
    CHECK_EQ(good, ECHOES);
    return arg;
}

static void *all(void *arg)
{
    weft_fiber clients[CLIENTS], acceptor;
    CHECK_EQ(weft_spawn(&acceptor, accepts, NULL, NULL), 0);
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(weft_spawn(&clients[i], client, NULL, NULL), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(weft_join(clients[i], NULL, WEFT_FOREVER), 0);
    }
    atomic_store(&over, true);
    CHECK_EQ(weft_join(acceptor, NULL, WEFT_FOREVER), 0);
    return arg;
}

TEST(echo_succeeds_despite_injected_syscall_failures)
{
    struct weft_addr addr;
    int before = count_descriptors(), err = -1;
    alarm(400);
    listener = weft_listen("127.0.0.1:0", NULL);
    CHECK(listener >= 0);
    CHECK_EQ(weft_addr_local(listener, &addr), 0);
    weft_addr_format(&addr, address, sizeof address);
    for (int i = 0; i < 10 && err; i++) { /* opening the pool's own descriptors may fail, too */
        err = weft_run(NULL, all, NULL, &(struct weft_pool_opts){.workers = 2, .hog_ns = -1},
                       WEFT_FOREVER);
        CHECK(err == 0 || err == -EMFILE || err == -ENFILE || err == -ENOMEM);
    }
    CHECK_EQ(err, 0);
    CHECK_EQ(weft_close(listener), 0);
    printf("  %d failures\n", atomic_load(&failures));
    CHECK_EQ(count_descriptors(), before);
}
