/* A listener is passed from one process to another over a Unix socket, as in a restart without
 * downtime: the old process sends its descriptor, the new process accepts on it. Here both are
 * fibers of one program. */
#include <stdio.h>
#include <sys/socket.h>
#include <weft/weft.h>

static void *old_server(void *arg)
{
    int channel = *(int *)arg;
    int listener = weft_listen("127.0.0.1:0", NULL);
    if (listener >= 0 && weft_send_fds(channel, "L", 1, &listener, 1, WEFT_FOREVER) == 1) {
        printf("old: handed over its listener\n");
    }
    weft_close(listener); /* the copy in transit keeps the port open */
    return NULL;
}

static void *new_server(void *arg)
{
    int channel = *(int *)arg, listener = -1, count = 1;
    char what, text[WEFT_ADDR_STRLEN], buf[16];
    struct weft_addr addr;
    if (weft_recv_fds(channel, &what, 1, &listener, &count, weft_after(WEFT_SECONDS(30))) != 1 ||
        count != 1 || weft_addr_local(listener, &addr) != 0) {
        return NULL;
    }
    weft_addr_format(&addr, text, sizeof text);
    int client = weft_dial(text, NULL, weft_after(WEFT_SECONDS(30)));
    int server = weft_accept(listener, NULL, weft_after(WEFT_SECONDS(30)));
    if (client >= 0 && server >= 0 && weft_write(client, "hello", 5, WEFT_FOREVER) == 5) {
        printf("new: got %d bytes on it\n", (int)weft_read(server, buf, sizeof buf, WEFT_FOREVER));
    }
    weft_close(client);
    weft_close(server);
    weft_close(listener);
    return NULL;
}

static void *run(void *arg)
{
    int ends[2];
    weft_fiber fibers[2];
    if (weft_socketpair(SOCK_STREAM, ends) != 0) {
        return arg;
    }
    if (weft_spawn(&fibers[0], old_server, &ends[0], NULL) == 0) {
        weft_join(fibers[0], NULL, WEFT_FOREVER);
    }
    if (weft_spawn(&fibers[1], new_server, &ends[1], NULL) == 0) {
        weft_join(fibers[1], NULL, WEFT_FOREVER);
    }
    weft_close(ends[0]);
    weft_close(ends[1]);
    return arg;
}

int main(void)
{
    return weft_run(NULL, run, NULL, NULL, WEFT_FOREVER) == 0 ? 0 : 1;
}
