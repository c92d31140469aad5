/* read, readv, pread, write, writev, pwrite: pipes, terminals, files, eventfds. */
/* alike without hooks */
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <termios.h>

#include "hook/hooked.h"

static void write_hello(void *arg)
{
    CHECK_EQ(write(*(int *)arg, "hello", 5), 5);
}

static void close_it(void *arg)
{
    CHECK_EQ(close(*(int *)arg), 0);
}

IN_FIBER(hooked_pipe_read_waits)
{
    int ends[2];
    char buf[16], more[16];
    struct hooked_peer peer;
    CHECK_EQ(pipe(ends), 0);
    hooked_peer_start(&peer, write_hello, &ends[1]);
    CHECK_EQ(read(ends[0], buf, sizeof buf), 5);
    CHECK(memcmp(buf, "hello", 5) == 0);
    hooked_peer_join(&peer);
    hooked_peer_start(&peer, write_hello, &ends[1]);
    struct iovec iov[] = {{buf, 2}, {more, 16}};
    CHECK_EQ(readv(ends[0], iov, 2), 5);
    CHECK(memcmp(buf, "he", 2) == 0 && memcmp(more, "llo", 3) == 0);
    hooked_peer_join(&peer);
    CHECK_EQ(fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0); /* its mode does not change */
    hooked_peer_start(&peer, close_it, &ends[1]);
    CHECK_EQ(read(ends[0], buf, sizeof buf), 0);
    hooked_peer_join(&peer);
    CHECK_EQ(close(ends[0]), 0);
    CHECK_FAILS(read(ends[0], buf, 1), EBADF);
    CHECK_FAILS(write(ends[1], buf, 1), EBADF);
    CHECK_FAILS(close(ends[1]), EBADF);
}

struct drain {
    int fd;
    size_t want, got;
};

static void drain(void *arg)
{
    struct drain *drain = arg;
    char buf[5000];
    while (drain->got < drain->want) {
        ssize_t n = read(drain->fd, buf, sizeof buf);
        CHECK(n > 0);
        for (ssize_t i = 0; i < n; i++) {
            CHECK_EQ(buf[i], (char)((drain->got + (size_t)i) % 251));
        }
        drain->got += (size_t)n;
    }
}

static char *pattern(size_t n)
{
    char *all = malloc(n);
    for (size_t i = 0; i < n; i++) {
        all[i] = (char)(i % 251);
    }
    return all;
}

IN_FIBER(hooked_write_writes_all_bytes)
{
    enum { N = 700000 };
    int ends[2];
    struct hooked_peer peer;
    char *all = pattern(N);
    CHECK_EQ(pipe(ends), 0);
    struct drain reader = {.fd = ends[0], .want = N};
    hooked_peer_start(&peer, drain, &reader);
    CHECK_EQ(write(ends[1], all, N), N);
    hooked_peer_join(&peer);
    reader.got = 0;
    hooked_peer_start(&peer, drain, &reader);
    const struct iovec iov[] = {
        {all, 1}, {all + 1, 0}, {all + 1, 99999}, {all + 100000, N - 100000}};
    CHECK_EQ(writev(ends[1], iov, 4), N);
    hooked_peer_join(&peer);
    close(ends[0]);
    close(ends[1]);
    free(all);
}

IN_FIBER(hooked_nonblocking_pipe_returns_eagain)
{
    int ends[2];
    CHECK_EQ(pipe2(ends, O_NONBLOCK), 0);
    size_t room = (size_t)fcntl(ends[1], F_GETPIPE_SZ); /* less on a system with very many pipes */
    char *buf = calloc(1, room + 5000);
    CHECK_FAILS(read(ends[0], buf, 1), EAGAIN);
    CHECK_EQ(write(ends[1], buf, room + 5000), room);
    CHECK_FAILS(write(ends[1], buf, 1), EAGAIN);
    CHECK_EQ(fcntl(ends[1], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    CHECK_FAILS(write(ends[1], buf, 1), EPIPE);
    close(ends[1]);
    free(buf);
}

/* A terminal offers no non-blocking read flag. */
IN_FIBER(hooked_terminal_read_waits)
{
    char buf[16], *all = pattern(20000);
    struct hooked_peer peer;
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    struct termios raw;
    CHECK(slave >= 0 && tcgetattr(slave, &raw) == 0);
    cfmakeraw(&raw);
    CHECK_EQ(tcsetattr(slave, TCSANOW, &raw), 0);
    hooked_peer_start(&peer, write_hello, &master);
    CHECK_EQ(read(slave, buf, sizeof buf), 5);
    hooked_peer_join(&peer);
    struct drain reader = {.fd = master, .want = 20000};
    hooked_peer_start(&peer, drain, &reader);
    CHECK_EQ(write(slave, all, 20000), 20000);
    hooked_peer_join(&peer);
    CHECK_EQ(fcntl(slave, F_GETFL) & O_NONBLOCK, 0);
    close(slave);
    close(master);
    free(all);
}

IN_FIBER(hooked_files_are_read_and_written_whole)
{
    char name[] = "/tmp/weft-hook-XXXXXX", buf[64];
    int fd = mkstemp(name);
    CHECK(fd >= 0);
    CHECK_EQ(unlink(name), 0);
    CHECK_EQ(write(fd, "0123456789", 10), 10);
    CHECK_EQ(pwrite(fd, "ab", 2, 4), 2);
    CHECK_EQ(pread(fd, buf, sizeof buf, 2), 8);
    CHECK(memcmp(buf, "23ab6789", 8) == 0);
    CHECK_EQ(lseek(fd, 0, SEEK_CUR), 10);
    CHECK_EQ(read(fd, buf, sizeof buf), 0);
    CHECK_EQ(lseek(fd, 7, SEEK_SET), 7);
    CHECK_EQ(read(fd, buf, sizeof buf), 3);
    CHECK_EQ(pread(fd, buf, sizeof buf, 100), 0);
    CHECK_EQ(pread(fd, buf, 0, 0), 0);
    CHECK_FAILS(pread(fd, buf, 1, -1), EINVAL);
    CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
    struct iovec iov[] = {{buf, 3}, {buf + 3, 60}};
    CHECK_EQ(readv(fd, iov, 2), 10);
    close(fd);
    /* Not in the page cache: the read goes to the disk. */
    enum { BIG = 3 << 20 };
    char cold[] = "/var/tmp/weft-hook-XXXXXX", *all = pattern(BIG), *back = malloc(BIG);
    fd = mkstemp(cold);
    CHECK(fd >= 0 && unlink(cold) == 0);
    CHECK_EQ(write(fd, all, BIG), BIG);
    CHECK_EQ(fsync(fd), 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    CHECK_EQ(pread(fd, back, BIG, 0), BIG);
    CHECK(memcmp(all, back, BIG) == 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    CHECK_EQ(lseek(fd, 1, SEEK_SET), 1);
    CHECK_EQ(read(fd, back, BIG), BIG - 1);
    CHECK(memcmp(all + 1, back, BIG - 1) == 0);
    CHECK_EQ(pwrite(fd, all, BIG, 5), BIG);
    close(fd);
    free(all);
    free(back);
}

static void add_one(void *arg)
{
    uint64_t one = 1;
    CHECK_EQ(write(*(int *)arg, &one, sizeof one), 8);
}

static void take_all(void *arg)
{
    uint64_t count;
    CHECK_EQ(read(*(int *)arg, &count, sizeof count), 8);
    CHECK_EQ(count, UINT64_MAX - 1);
}

IN_FIBER(hooked_eventfd_read_waits)
{
    uint64_t count;
    struct hooked_peer peer;
    int fd = eventfd(0, 0);
    hooked_peer_start(&peer, add_one, &fd);
    CHECK_EQ(read(fd, &count, sizeof count), 8);
    CHECK_EQ(count, 1);
    hooked_peer_join(&peer);
    add_one(&fd);
    CHECK_FAILS(read(fd, &count, 4), EINVAL);
    CHECK_FAILS(write(fd, &count, 4), EINVAL);
    uint64_t most = UINT64_MAX - 2;
    CHECK_EQ(write(fd, &most, sizeof most), 8);
    hooked_peer_start(&peer, take_all, &fd); /* full, then drained */
    add_one(&fd);
    hooked_peer_join(&peer);
    CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    CHECK_EQ(read(fd, &count, sizeof count), 8);
    CHECK_EQ(count, 1);
    CHECK_FAILS(read(fd, &count, sizeof count), EAGAIN);
    most = UINT64_MAX - 1;
    CHECK_EQ(write(fd, &most, sizeof most), 8);
    CHECK_FAILS(write(fd, &most, sizeof most), EAGAIN);
    close(fd);
}

IN_FIBER(hooked_dev_null_and_zero_behave_as_usual)
{
    char buf[4] = "abc";
    int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDONLY);
    CHECK_EQ(read(null, buf, 4), 0);
    CHECK_EQ(write(null, buf, 4), 4);
    CHECK_EQ(read(zero, buf, 4), 4);
    CHECK_EQ(buf[0], 0);
    CHECK_EQ(read(zero, buf, 0), 0);
    CHECK_FAILS(write(zero, buf, 1), EBADF);
    close(null);
    close(zero);
}
