/* An echo server, one of three (echo_reactor.c, echo_proactor.c): one fiber per connection, which
 * reads and writes with blocking-looking calls.
 *
 *     echo_fiber [ADDRESS]      serves there until it is killed; without an address: serves a few
 *                               clients of its own
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/weft.h>

static int listener;

static void *serve(void *arg)
{
    char buf[4096];
    int fd = (int)(intptr_t)arg;
    ssize_t n;
    while ((n = weft_read(fd, buf, sizeof buf, WEFT_FOREVER)) > 0 &&
           weft_write_all(fd, buf, (size_t)n, NULL, WEFT_FOREVER) == 0) {
    }
    weft_close(fd);
    return NULL;
}

/* Runs until the listener is closed. */
static void *accept_all(void *arg)
{
    int fd;
    while ((fd = weft_accept(listener, NULL, WEFT_FOREVER)) >= 0) {
        if (weft_spawn(NULL, serve, (void *)(intptr_t)fd, NULL) != 0) {
            weft_close(fd);
        }
    }
    return arg;
}

/* --- a self-test: several clients, each on a blocking thread ------------------------------ */

#define CLIENTS 8

static struct weft_addr address;

static void *client(void *arg)
{
    char text[32], back[32];
    struct weft_addr to = address;
    intptr_t *wrong = arg;
    int fd = socket(to.storage.ss_family, SOCK_STREAM, 0);
    *wrong = 1;
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to.storage, to.len) == 0) {
        *wrong = 0;
        for (int i = 0; i < 100; i++) {
            int n = snprintf(text, sizeof text, "line %d of %d\n", i, fd);
            *wrong |= send(fd, text, (size_t)n, 0) != n ||
                      recv(fd, back, (size_t)n, MSG_WAITALL) != n ||
                      memcmp(text, back, (size_t)n) != 0;
        }
    }
    close(fd);
    return NULL;
}

static void *clients(void *arg)
{
    pthread_t threads[CLIENTS];
    intptr_t wrong[CLIENTS], *failed = arg;
    for (int i = 0; i < CLIENTS; i++) {
        pthread_create(&threads[i], NULL, client, &wrong[i]);
    }
    *failed = 0;
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        *failed += wrong[i];
    }
    weft_close(listener);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    intptr_t failed = 0;
    listener = weft_listen(argc > 1 ? argv[1] : "127.0.0.1:0", NULL);
    if (listener < 0 || weft_addr_local(listener, &address) != 0) {
        fprintf(stderr, "echo_fiber: %s\n", weft_strerror(listener));
        return 1;
    }
    if (argc < 2 && pthread_create(&thread, NULL, clients, &failed) != 0) {
        return 1;
    }
    weft_run(NULL, accept_all, NULL, NULL, WEFT_FOREVER);
    if (argc < 2) {
        pthread_join(thread, NULL);
    }
    printf("%d clients, %d failed\n", CLIENTS, (int)failed);
    return failed != 0;
}
