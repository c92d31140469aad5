/* not under: qemu */
#include <weft/file.h>

#include <fcntl.h>
#include <sys/stat.h>

#include "io/drivers.h"
#include "io/waiting.h"

#define MS INT64_C(1000000)

static char folder[32];
static weft_pathwatch *watch;

static char *below(const char *name)
{
    static char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void touch(const char *name)
{
    int fd = open(below(name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && close(fd) == 0);
}

static void on(enum weft_driver driver, unsigned workers, weft_fn fn)
{
    const struct weft_pool_opts opts = {.workers = workers, .driver = driver};
    strcpy(folder, "/tmp/weft-watch-XXXXXX");
    CHECK(mkdtemp(folder));
    CHECK_EQ(weft_pathwatch_open(&watch), 0);
    CHECK_EQ(weft_run(NULL, fn, NULL, &opts, WEFT_FOREVER), 0);
    weft_pathwatch_close(watch);
    CHECK_EQ(rmdir(folder), 0);
}

static struct weft_pathwatch_event next(void)
{
    struct weft_pathwatch_event event;
    CHECK_EQ(weft_pathwatch_next(watch, &event, WEFT_FOREVER), 0);
    return event;
}

static void *sees(void *arg)
{
    struct weft_pathwatch_event event, to;
    int id = weft_pathwatch_add(watch, folder, IN_CREATE | IN_DELETE | IN_MOVE, WEFT_FOREVER);
    CHECK(id >= 0);
    CHECK_EQ(weft_pathwatch_next(watch, &event, 0), -ETIMEDOUT);
    CHECK_EQ(weft_pathwatch_next(watch, &event, weft_after(2 * MS)), -ETIMEDOUT);
    touch("one");
    event = next();
    CHECK(event.id == id && event.mask == IN_CREATE && event.cookie == 0);
    CHECK_STR(event.name, "one");
    char other[100];
    strcpy(other, below("two"));
    CHECK_EQ(rename(below("one"), other), 0);
    event = next();
    to = next();
    CHECK(event.mask == IN_MOVED_FROM && to.mask == IN_MOVED_TO && event.cookie == to.cookie);
    CHECK(event.cookie != 0);
    CHECK_STR(to.name, "two");

    int file = weft_pathwatch_add(watch, other, IN_ATTRIB, WEFT_FOREVER);
    CHECK(file >= 0 && file != id);
    CHECK_EQ(weft_pathwatch_add(watch, folder, IN_CREATE | IN_DELETE, WEFT_FOREVER), id);
    CHECK_EQ(chmod(other, 0400), 0);
    event = next();
    CHECK(event.id == file && event.mask == IN_ATTRIB && event.name[0] == 0);
    CHECK_EQ(weft_pathwatch_remove(watch, file), 0);
    CHECK_EQ(weft_pathwatch_remove(watch, file), -EINVAL);
    event = next();
    CHECK(event.id == file && event.mask == IN_IGNORED);
    CHECK_EQ(unlink(other), 0);
    event = next();
    CHECK(event.id == id && event.mask == IN_DELETE);
    CHECK_EQ(weft_pathwatch_add(watch, below("none"), IN_CREATE, WEFT_FOREVER), -ENOENT);
    return arg;
}

EACH_DRIVER(path_changes_arrive_in_order)
{
    on(driver, 1, sees);
}

/* --- waiters ----------------------------------------------------------------------------- */

static void *waits(void *arg)
{
    struct weft_pathwatch_event event;
    (void)arg;
    return (void *)(intptr_t)weft_pathwatch_next(watch, &event, WEFT_FOREVER);
}

static void *two_wait(void *arg)
{
    CHECK(weft_pathwatch_add(watch, folder, IN_CREATE | IN_DELETE, WEFT_FOREVER) >= 0);
    weft_fiber a = started(waits, NULL), b = started(waits, NULL);
    touch("x");
    CHECK_EQ(unlink(below("x")), 0);
    CHECK_EQ(joined(a), 0); /* each waiter gets one event */
    CHECK_EQ(joined(b), 0);
    a = started(waits, NULL);
    b = started(waits, NULL);
    CHECK_EQ(weft_cancel(a), 0);
    CHECK_EQ(joined(a), -ECANCELED);
    a = started(waits, NULL);
    weft_pathwatch_close(watch);
    CHECK_EQ(joined(a), -EBADFD);
    CHECK_EQ(joined(b), -EBADFD);
    watch = NULL;
    return arg;
}

EACH_DRIVER(path_event_wakes_one_waiter_and_close_ends_all)
{
    on(driver, 1, two_wait);
    on(driver, 3, two_wait);
}

/* --- queue overflow ------------------------------------------------------------------------- */

static long most_events(void)
{
    char text[32] = "";
    int fd = open("/proc/sys/fs/inotify/max_queued_events", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        CHECK(read(fd, text, sizeof text - 1) > 0);
        close(fd);
    }
    return atol(text);
}

static void *overflows(void *arg)
{
    struct weft_pathwatch_event event;
    int err, seen = 0;
    long most = most_events();
    if (most <= 0 || most > 100000) {
        printf("  the kernel queues %ld events here\n", most);
        return arg;
    }
    touch("a");
    touch("b");
    CHECK(weft_pathwatch_add(watch, folder, IN_ATTRIB | IN_CREATE | IN_DELETE, WEFT_FOREVER) >= 0);
    for (long i = 0; i < most + 10; i++) { /* the same event twice in a row would be merged into
                                            * one */
        CHECK_EQ(chmod(below(i % 2 ? "a" : "b"), 0600), 0);
        if (i % 1000 == 0) {
            weft_yield();
        }
    }
    while ((err = weft_pathwatch_next(watch, &event, 0)) == 0) {
        seen++;
    }
    CHECK_EQ(err, -EOVERFLOW);
    CHECK_EQ(seen, most);
    CHECK_EQ(weft_pathwatch_next(watch, &event, 0), -ETIMEDOUT);
    touch("c"); /* after the overflow, events continue */
    CHECK_EQ(next().mask, IN_CREATE);
    CHECK_EQ(unlink(below("a")) | unlink(below("b")) | unlink(below("c")), 0);
    return arg;
}

EACH_DRIVER(lost_path_events_are_reported)
{
    on(driver, 1, overflows);
}
