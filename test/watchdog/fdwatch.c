#include "watchdog/fdwatch.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include "pool/fixture.h"
#include "pool/forks.h"

struct probe {
    struct weft__fdwatch watch; /* first */
    atomic_int calls;
    bool goes_on;
};

static bool on_ready(struct weft__fdwatch *watch)
{
    struct probe *probe = (struct probe *)(void *)watch;
    uint64_t count;
    CHECK_EQ(read(watch->fd, &count, sizeof count), sizeof count);
    bool goes_on = probe->goes_on;
    atomic_fetch_add(&probe->calls, 1);
    return goes_on;
}

static int event_open(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(fd >= 0);
    return fd;
}

static void ring(int fd)
{
    CHECK_EQ(eventfd_write(fd, 1), 0);
}

/* This test runs first, while the program has one thread: some emulators cannot fork with more. */
static void removes_twice(void *arg)
{
    struct probe probe = {.goes_on = true};
    (void)arg;
    CHECK_EQ(weft__fdwatch_add(&probe.watch, event_open(), on_ready), 0);
    weft__fdwatch_remove(&probe.watch);
    weft__fdwatch_remove(&probe.watch);
}

TEST(fdwatch_double_remove_aborts)
{
    char err[CHECK_ERR];
    CHECK(WIFSIGNALED(check_child(removes_twice, NULL, err, sizeof err)));
    CHECK(strstr(err, "weft__fdwatch_remove: the descriptor is not watched"));
}

TEST(fdwatch_reports_readable_fd_until_removed)
{
    struct probe probe = {.goes_on = true};
    int fd = event_open();
    CHECK_EQ(weft__fdwatch_add(&probe.watch, fd, on_ready), 0);
    for (int i = 1; i <= 3; i++) {
        ring(fd);
        await_count(&probe.calls, i);
    }
    weft__fdwatch_remove(&probe.watch);
    ring(fd);
    CHECK_EQ(atomic_load(&probe.calls), 3);
    close(fd);
}

TEST(fdwatch_ended_by_callback_closes_its_fd)
{
    struct probe probe = {.goes_on = false};
    int fd = event_open();
    CHECK_EQ(weft__fdwatch_add(&probe.watch, fd, on_ready), 0);
    ring(fd);
    await_count(&probe.calls, 1);
    while (fcntl(fd, F_GETFD) >= 0) {
        weft_yield();
    }
}

TEST(many_fdwatches_each_report_only_own_fd)
{
    enum { MANY = 100 };
    static struct probe probes[MANY];
    int fds[MANY];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < MANY; i++) {
            fds[i] = event_open();
            atomic_store(&probes[i].calls, 0);
            probes[i].goes_on = true;
            CHECK_EQ(weft__fdwatch_add(&probes[i].watch, fds[i], on_ready), 0);
        }
        for (int i = round; i < MANY; i += 3) {
            ring(fds[i]);
        }
        for (int i = 0; i < MANY; i++) {
            if (i % 3 == round) {
                await_count(&probes[i].calls, 1);
            }
            weft__fdwatch_remove(&probes[i].watch);
            CHECK_EQ(atomic_load(&probes[i].calls), i % 3 == round);
            close(fds[i]);
        }
    }
}

TEST(unwatchable_fd_is_rejected)
{
    struct probe probe = {.goes_on = true};
    CHECK_EQ(weft__fdwatch_add(&probe.watch, 9999, on_ready), -EBADF);
    FILE *file = tmpfile();
    CHECK(file);
    CHECK_EQ(weft__fdwatch_add(&probe.watch, fileno(file), on_ready), -EPERM); /* from epoll */
    fclose(file);
}
