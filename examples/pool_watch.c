/* Callbacks for descriptors, in the fibers of a pool: a pool watch calls a function whenever its
 * descriptor is readable, and the function may wait. Here several devices deliver readings. One
 * device is read once and unwatched by its own callback; when enough readings have arrived, the
 * remaining watches are cancelled, and their last call closes the device. */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <weft/weft.h>

enum { DEVICES = 4, READINGS = 10 };

struct device {
    int fd, far_end;
    bool once;
    int readings, last_call;
};

static struct device devices[DEVICES] = {{.once = true}};
static weft_waitgroup missing, closed;

static void on_device(int fd, int event, void *arg)
{
    struct device *device = arg;
    unsigned char value;
    if (event < 0) { /* the last call */
        device->last_call = event;
        weft_close(fd);
        weft_waitgroup_done(&closed);
        return;
    }
    if (weft_read(fd, &value, 1, WEFT_FOREVER) != 1) {
        return;
    }
    device->readings++; /* never called twice at once: no lock */
    if (device->once) { /* removed by the callback itself: this call is the last one */
        device->last_call = weft_pool_watch_remove(weft_pool_self(), fd, WEFT_READABLE);
    }
    weft_waitgroup_done(&missing);
}

static void *run(void *arg)
{
    int err = 0, cancelled;
    weft_waitgroup_add(&missing, 1 + (DEVICES - 1) * READINGS);
    weft_waitgroup_add(&closed, DEVICES - 1);
    for (int i = 0; !err && i < DEVICES; i++) {
        int ends[2];
        err = weft_socketpair(SOCK_STREAM, ends);
        if (err) {
            break;
        }
        devices[i].fd = ends[0];
        devices[i].far_end = ends[1];
        for (int k = 0; !err && k < READINGS; k++) {
            unsigned char value = (unsigned char)k;
            err = weft_write_all(ends[1], &value, 1, NULL, WEFT_FOREVER);
        }
        err = err ? err
                  : weft_pool_watch_add(weft_pool_self(), ends[0], WEFT_READABLE, on_device,
                                        &devices[i]);
    }
    if (!err) {
        weft_waitgroup_wait(&missing, WEFT_FOREVER);
    }
    cancelled = weft_pool_watch_cancel_all(weft_pool_self(), -1);
    printf("%d watches cancelled\n", cancelled);
    if (!err && cancelled == DEVICES - 1) {
        weft_waitgroup_wait(&closed, WEFT_FOREVER);
    }
    *(int *)arg = err ? err : cancelled == DEVICES - 1 ? 0 : -EBADMSG;
    return NULL;
}

int main(void)
{
    int failed = 0;
    int err = weft_run(NULL, run, &failed, NULL, WEFT_FOREVER);
    failed |= err;
    for (int i = 0; i < DEVICES; i++) {
        struct device *device = &devices[i];
        printf("device %d: %d readings, ended with: %s\n", i, device->readings,
               weft_strerror(device->last_call));
        failed |= device->readings != (device->once ? 1 : READINGS);
        failed |= device->last_call != (device->once ? -EINPROGRESS : -ECANCELED);
        weft_close(device->far_end);
    }
    weft_close(devices[0].fd);
    if (failed) {
        fprintf(stderr, "pool_watch: readings are missing, or a watch ended in another way\n");
        return 1;
    }
    return 0;
}
