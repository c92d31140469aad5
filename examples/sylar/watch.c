/* sylar: IOManager::addEvent(fd, event, cb), delEvent, cancelEvent, cancelAll. A callback for a
 * descriptor runs as a fiber of the pool and may wait. In sylar an event fires once and must be
 * re-armed, and a callback cannot tell a cancel from readiness; in Weft the callback is called as
 * long as the descriptor is ready, and receives the reason. */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/weft.h>

static weft_event over;

static void on_readable(int fd, int event, void *arg)
{
    char text[64];
    (void)arg;
    if (event < 0) {
        printf("watch ended: %s\n", weft_strerror(event));
        weft_event_set(&over);
        return;
    }
    ssize_t n = weft_read(fd, text, sizeof text, WEFT_FOREVER);
    printf("read %zd bytes: %.*s\n", n, (int)n, text);
    weft_pool_watch_cancel(weft_pool_self(), fd, WEFT_READABLE); /* cancelEvent */
}

int main(void)
{
    weft_pool *pool;
    int ends[2];
    weft_event_init(&over, NULL);
    if (weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}) || weft_pool_start(pool) ||
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) {
        return 1;
    }
    int err = weft_pool_watch_add(pool, ends[0], WEFT_READABLE, on_readable, NULL); /* addEvent */
    if (err || write(ends[1], "hello", 5) != 5) {
        return 1;
    }
    weft_event_wait(&over, WEFT_FOREVER);
    weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(pool);
    weft_close(ends[0]);
    close(ends[1]);
    return 0;
}
