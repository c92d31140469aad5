/* Datagrams: a server that replies in capitals, and a client that resends when a reply does not
 * come in time. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

#define REPLY_TIMEOUT_NS 200000000 /* ns */

static void *serve(void *arg)
{
    int fd = *(int *)arg;
    char buf[1500];
    struct weft_addr from;
    ssize_t n;
    while ((n = weft_recvfrom(fd, buf, sizeof buf, &from, WEFT_FOREVER)) >= 0) {
        for (ssize_t i = 0; i < n; i++) {
            buf[i] = (char)toupper((unsigned char)buf[i]);
        }
        weft_sendto(fd, buf, (size_t)n, &from, WEFT_FOREVER);
    }
    return NULL; /* -EBADFD: the socket was closed */
}

static ssize_t ask(int fd, const char *text, size_t n, char *answer, size_t size)
{
    ssize_t got = -ETIMEDOUT;
    for (int tries = 0; tries < 5 && got == -ETIMEDOUT; tries++) {
        got = weft_write(fd, text, n, WEFT_FOREVER);
        got = got < 0 ? got : weft_read(fd, answer, size, weft_after(REPLY_TIMEOUT_NS));
    }
    return got;
}

static void *run(void *arg)
{
    struct weft_addr addr;
    weft_fiber server;
    char answer[64];
    int fd = weft_datagram_open("127.0.0.1:0", NULL);
    if (fd < 0 || weft_addr_local(fd, &addr) != 0 || weft_spawn(&server, serve, &fd, NULL) != 0) {
        return arg;
    }
    int client = weft_datagram_connect(&addr);
    ssize_t n = ask(client, "hello", 5, answer, sizeof answer);
    printf("%.*s\n", n > 0 ? (int)n : 0, answer);
    weft_close(client);
    weft_close(fd);
    weft_join(server, NULL, WEFT_FOREVER);
    return arg;
}

int main(void)
{
    return weft_run(NULL, run, NULL, NULL, WEFT_FOREVER) == 0 ? 0 : 1;
}
