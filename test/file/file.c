/* Files and paths: the result of each call; no call blocks the worker, and no call loses a result
 * after its deadline. */
#include <weft/file.h>

#include <limits.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "io/drivers.h"
#include "io/waiting.h"

#define MS INT64_C(1000000)

static char folder[] = "/tmp/weft-file-XXXXXX";
static int dir = -1;

static void *in_folder(void *fn)
{
    weft_fn body = *(weft_fn *)fn;
    strcpy(folder, "/tmp/weft-file-XXXXXX");
    CHECK(mkdtemp(folder));
    dir = weft_open_at(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0, 0, WEFT_FOREVER);
    CHECK(dir >= 0);
    body(NULL);
    CHECK_EQ(weft_close(dir), 0);
    CHECK_EQ(weft_unlink_at(AT_FDCWD, folder, AT_REMOVEDIR, WEFT_FOREVER), 0);
    return NULL;
}

static void on(enum weft_driver driver, weft_fn fn)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, in_folder, &fn, &opts, WEFT_FOREVER), 0);
}

static int make(const char *name, int flags)
{
    int fd = weft_open_at(dir, name, O_CREAT | O_RDWR | flags, 0600, 0, WEFT_FOREVER);
    CHECK(fd >= 0);
    return fd;
}

static void gone(const char *name)
{
    CHECK_EQ(weft_unlink_at(dir, name, 0, WEFT_FOREVER), 0);
}

/* --- results ---------------------------------------------------------------------------- */

static void *reads_and_writes(void *arg)
{
    char text[64] = "";
    int fd = make("one", O_EXCL);
    CHECK_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    CHECK_EQ(weft_write(fd, "hello ", 6, WEFT_FOREVER), 6);
    CHECK_EQ(weft_write(fd, "world", 5, WEFT_FOREVER), 5);
    CHECK_EQ(weft_read(fd, text, sizeof text, WEFT_FOREVER), 0); /* the position is at the end */
    CHECK_EQ(weft_pread(fd, text, sizeof text, 0, WEFT_FOREVER), 11);
    CHECK_STR(text, "hello world");
    CHECK_EQ(weft_pwrite(fd, "W", 1, 6, WEFT_FOREVER), 1);
    char a[6], b[20] = "";
    struct iovec parts[] = {{a, sizeof a}, {b, sizeof b}};
    CHECK_EQ(weft_preadv(fd, parts, 2, 0, WEFT_FOREVER), 11);
    CHECK_EQ(memcmp(a, "hello ", 6), 0);
    CHECK_STR(b, "World");
    struct iovec back[] = {{b, 5}, {a, 5}};
    CHECK_EQ(weft_pwritev(fd, back, 2, 100, WEFT_FOREVER), 10);
    CHECK_EQ(weft_pread(fd, text, 5, 105, WEFT_FOREVER), 5);
    CHECK_EQ(memcmp(text, "hello", 5), 0);
    CHECK_EQ(weft_pread(fd, text, 5, 110, WEFT_FOREVER), 0);
    CHECK_EQ(lseek(fd, 0, SEEK_CUR), 11); /* none of these calls has moved it */
    CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
    CHECK_EQ(weft_read_full(fd, text, 11, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(memcmp(text, "hello World", 11), 0);
    CHECK_EQ(weft_fsync(fd, false, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fsync(fd, true, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fd_wait(fd, WEFT_READABLE, WEFT_FOREVER), WEFT_READABLE);
    CHECK_EQ(weft_close(fd), 0);
    gone("one");
    return arg;
}

EACH_DRIVER(file_reads_return_bytes_written_at_offset)
{
    on(driver, reads_and_writes);
}

static void *paths(void *arg)
{
    struct statx st;
    char path[100];
    int fd = make("a", 0);
    CHECK_EQ(weft_ftruncate(fd, 4096, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fstat(fd, &st, WEFT_FOREVER), 0);
    CHECK_EQ(st.stx_size, 4096);
    CHECK_EQ(weft_stat_at(fd, &st, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE, 0), 0);
    CHECK_EQ(st.stx_size, 4096);
    snprintf(path, sizeof path, "%s/a", folder);
    CHECK_EQ(weft_stat_at(AT_FDCWD, &st, path, 0, STATX_BASIC_STATS, WEFT_FOREVER), 0);
    CHECK(S_ISREG(st.stx_mode));
    CHECK_EQ(weft_close(fd), 0);

    CHECK_EQ(weft_mkdir_at(dir, "sub", 0700, WEFT_FOREVER), 0);
    CHECK_EQ(weft_mkdir_at(dir, "sub", 0700, WEFT_FOREVER), -EEXIST);
    CHECK_EQ(weft_rename_at(dir, "a", dir, "sub/b", 0, WEFT_FOREVER), 0);
    CHECK_EQ(weft_stat_at(AT_FDCWD, &st, path, 0, STATX_BASIC_STATS, WEFT_FOREVER), -ENOENT);
    CHECK_EQ(weft_stat_at(dir, &st, "sub/b", 0, STATX_BASIC_STATS, WEFT_FOREVER), 0);
    CHECK_EQ(weft_unlink_at(dir, "sub", AT_REMOVEDIR, WEFT_FOREVER), -ENOTEMPTY);
    CHECK_EQ(weft_unlink_at(dir, "sub/b", 0, WEFT_FOREVER), 0);
    CHECK_EQ(weft_unlink_at(dir, "sub/b", 0, WEFT_FOREVER), -ENOENT);
    CHECK_EQ(weft_unlink_at(dir, "sub", AT_REMOVEDIR, WEFT_FOREVER), 0);

    char other[100];
    snprintf(other, sizeof other, "%s/d", folder);
    CHECK_EQ(weft_mkdir_at(AT_FDCWD, path, 0700, WEFT_FOREVER), 0);
    CHECK_EQ(weft_rename_at(AT_FDCWD, path, AT_FDCWD, other, 0, WEFT_FOREVER), 0);
    CHECK_EQ(weft_unlink_at(AT_FDCWD, other, 0, WEFT_FOREVER), -EISDIR);
    CHECK_EQ(weft_unlink_at(AT_FDCWD, other, AT_REMOVEDIR, WEFT_FOREVER), 0);
    return arg;
}

EACH_DRIVER(paths_are_created_renamed_and_removed)
{
    on(driver, paths);
}

static void *errors(void *arg)
{
    char byte;
    struct statx st;
    CHECK_EQ(weft_open_at(dir, "none", O_RDONLY, 0, 0, WEFT_FOREVER), -ENOENT);
    CHECK_EQ(weft_open_at(12345, "none", O_RDONLY, 0, 0, WEFT_FOREVER), -EBADF);
    CHECK_EQ(weft_open_at(-1, "none", O_RDONLY, 0, 0, WEFT_FOREVER), -EBADF);
    CHECK_EQ(weft_open_at(AT_FDCWD, folder, O_WRONLY, 0, 0, WEFT_FOREVER), -EISDIR);
    CHECK_EQ(weft_pread(-1, &byte, 1, 0, WEFT_FOREVER), -EBADF);
    CHECK_EQ(weft_fstat(-1, &st, WEFT_FOREVER), -EBADF);
    CHECK_EQ(weft_fsync(-1, false, WEFT_FOREVER), -EBADF);
    int fd = make("f", 0);
    CHECK_EQ(weft_open_at(dir, "f", O_CREAT | O_EXCL | O_RDWR, 0600, 0, WEFT_FOREVER), -EEXIST);
    CHECK_EQ(weft_pread(fd, &byte, 1, -1, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_preadv(fd, NULL, -1, 0, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_pread(fd, NULL, 0, 0, WEFT_FOREVER), 0);
    CHECK_EQ(weft_write(fd, "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_pread(fd, (void *)8, 1, 0, WEFT_FOREVER), -EFAULT);
    CHECK_EQ(weft_close(fd), 0);
    fd = weft_open_at(dir, "f", O_RDONLY, 0, 0, WEFT_FOREVER);
    CHECK_EQ(weft_write(fd, "x", 1, WEFT_FOREVER), -EBADF);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_pread(fd, &byte, 1, 0, WEFT_FOREVER), -EBADF);
    int ends[2];
    CHECK_EQ(weft_pipe(&ends[0], &ends[1]), 0);
    CHECK_EQ(weft_pread(ends[0], &byte, 1, 0, WEFT_FOREVER), -ESPIPE);
    CHECK_EQ(weft_close(ends[0]) | weft_close(ends[1]), 0);
    gone("f");
    return arg;
}

EACH_DRIVER(file_errors_are_system_errors)
{
    on(driver, errors);
}

static void *beneath(void *arg)
{
    char path[100];
    int fd = make("in", 0);
    CHECK_EQ(weft_close(fd), 0);
    fd = weft_open_at(dir, "in", O_RDONLY, 0, RESOLVE_BENEATH, WEFT_FOREVER);
    if (fd == -ENOSYS) {
        printf("  no openat2 here\n");
        gone("in");
        return arg;
    }
    CHECK(fd >= 0);
    CHECK_EQ(weft_close(fd), 0);
    snprintf(path, sizeof path, "%s/in", folder);
    CHECK_EQ(weft_open_at(dir, path, O_RDONLY, 0, RESOLVE_BENEATH, WEFT_FOREVER), -EXDEV);
    CHECK_EQ(weft_open_at(dir, "../../etc/passwd", O_RDONLY, 0, RESOLVE_BENEATH, WEFT_FOREVER),
             -EXDEV);
    gone("in");
    return arg;
}

EACH_DRIVER(open_beneath_refuses_escaping_paths)
{
    on(driver, beneath);
}

/* Regular files opened with O_NONBLOCK are still read completely. */
static void *nonblocking(void *arg)
{
    static char big[1 << 20], back[1 << 20];
    memset(big, 'x', sizeof big);
    int fd = make("big", O_NONBLOCK);
    CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    CHECK_EQ(weft_pwrite(fd, big, sizeof big, 0, WEFT_FOREVER), sizeof big);
    CHECK_EQ(weft_fsync(fd, false, WEFT_FOREVER), 0);
    for (int i = 0; i < 8; i++) {
        posix_fadvise(fd, i % 2 ? 65536 : 0, 0, POSIX_FADV_DONTNEED); /* all or part is uncached */
        CHECK_EQ(weft_pread(fd, back, sizeof back, 0, WEFT_FOREVER), sizeof back);
        CHECK_EQ(memcmp(big, back, sizeof back), 0);
        memset(back, 0, sizeof back);
    }
    CHECK_EQ(weft_close(fd), 0);
    gone("big");
    return arg;
}

EACH_DRIVER(pread_is_short_only_at_end_of_file)
{
    on(driver, nonblocking);
}

static void *fifos(void *arg)
{
    char byte;
    CHECK_EQ(mkfifoat(dir, "pipe", 0600), 0);
    CHECK_EQ(weft_open_at(dir, "pipe", O_WRONLY, 0, 0, WEFT_FOREVER), -ENXIO);
    int in = weft_open_at(dir, "pipe", O_RDONLY, 0, 0, WEFT_FOREVER);
    int out = weft_open_at(dir, "pipe", O_WRONLY, 0, 0, WEFT_FOREVER);
    CHECK(in >= 0 && out >= 0);
    CHECK_EQ(weft_read(in, &byte, 1, weft_after(MS)), -ETIMEDOUT);
    CHECK_EQ(weft_write(out, "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(in, &byte, 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_close(out), 0);
    CHECK_EQ(weft_read(in, &byte, 1, WEFT_FOREVER), 0);
    CHECK_EQ(weft_close(in), 0);
    gone("pipe");
    return arg;
}

EACH_DRIVER(fifo_opens_at_once_and_reads_as_pipe)
{
    on(driver, fifos);
}

/* --- results after the deadline ------------------------------------------------------------ */

static atomic_int opened, ticks;

static void *opens_leased(void *deadline)
{
    int fd = weft_open_at(dir, "leased", O_RDONLY, 0, 0, *(int64_t *)deadline);
    atomic_store(&opened, 1);
    return (void *)(intptr_t)fd;
}

/* An open that waits for a lease to break takes as long as the test wants. */
static int take_lease(void)
{
    int fd = make("leased", 0);
    signal(SIGIO, SIG_IGN);
    return fcntl(fd, F_SETLEASE, F_WRLCK) == 0 ? fd : (weft_close(fd), -1);
}

static void *late(void *arg)
{
    int64_t deadline = weft_after(20 * MS);
    weft_fiber fiber;
    void *result;
    int fd = take_lease();
    if (fd < 0) {
        printf("  no leases here\n");
        gone("leased");
        return arg;
    }
    atomic_store(&opened, 0);
    CHECK_EQ(weft_spawn(&fiber, opens_leased, &deadline, NULL), 0);
    /* The only worker keeps running while the open waits and its deadline passes. */
    for (int i = 0; i < 2 || weft_now() < deadline + MS; i++) {
        weft_yield();
        atomic_fetch_add(&ticks, 1);
    }
    bool before = atomic_load(&opened);
    CHECK_EQ(fcntl(fd, F_SETLEASE, F_UNLCK), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    int got = (int)(intptr_t)result;
    /* The open finished after its deadline and returns the descriptor; or, with a ring, the open
     * was cancelled before it had an effect. */
    CHECK(got >= 0 ? !before : got == -ETIMEDOUT);
    CHECK_EQ(got < 0 || weft_close(got) == 0, 1);
    CHECK(atomic_load(&ticks) > 1);
    CHECK_EQ(weft_close(fd), 0);
    gone("leased");
    return arg;
}

EACH_DRIVER(started_open_outlasts_deadline_without_blocking_worker)
{
    on(driver, late);
}

/* A deadline in the past starts no operation, but reads what is cached. */
static void *past(void *arg)
{
    char byte = 0;
    struct statx st;
    int fd = make("f", 0);
    CHECK_EQ(weft_pwrite(fd, "y", 1, 0, 0), -ETIMEDOUT);
    CHECK_EQ(weft_fsync(fd, false, 0), -ETIMEDOUT);
    CHECK_EQ(weft_fstat(fd, &st, 0), -ETIMEDOUT);
    CHECK_EQ(weft_pwrite(fd, "x", 1, 0, WEFT_FOREVER), 1);
    ssize_t n = weft_pread(fd, &byte, 1, 0, 0);
    CHECK((n == 1 && byte == 'x') || n == -ETIMEDOUT); /* the file system may not support the
                                                        * query */
    CHECK_EQ(weft_close(fd), 0);
    gone("f");
    return arg;
}

EACH_DRIVER(file_operation_past_deadline_is_not_started)
{
    on(driver, past);
}

/* --- all threads are busy ------------------------------------------------------------------- */

#define THREADS 64 /* in the default pool */

static weft_event go;
static atomic_int busy;

static void *occupies(void *arg)
{
    atomic_fetch_add(&busy, 1);
    CHECK_EQ(weft_event_wait(&go, WEFT_FOREVER), 0);
    return arg;
}

static void *asks(void *arg)
{
    CHECK_EQ(weft_blocking_call(NULL, NULL, occupies, NULL, WEFT_FOREVER), 0);
    return arg;
}

static void *writes(void *fd)
{
    return (void *)(intptr_t)weft_pwrite(*(int *)fd, "y", 1, 0, WEFT_FOREVER);
}

static void *sets(void *arg)
{
    weft_event_set(arg);
    return NULL;
}

static void *queued(void *arg)
{
    weft_fiber blocked[THREADS];
    char byte = 0;
    int fd = make("f", 0), copy = dup(fd);
    weft_event_reset(&go);
    atomic_store(&busy, 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(weft_spawn(&blocked[i], asks, NULL, NULL), 0);
    }
    while (atomic_load(&busy) < THREADS) {
        weft_yield();
    }
    CHECK_EQ(weft_pwrite(fd, "y", 1, 0, weft_after(2 * MS)), -ETIMEDOUT);
    weft_fiber fiber = started(writes, &fd);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(joined(fiber), -ECANCELED);
    fiber = started(writes, &fd);
    CHECK_EQ(weft_fiber_interrupt(fiber), 0);
    CHECK_EQ(joined(fiber), -EINTR);
    /* A close waits for the operation, because another file must not get the number before. */
    fiber = started(writes, &fd);
    weft_fiber closer;
    CHECK_EQ(weft_spawn(&closer, sets, &go, NULL), 0);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(joined(fiber), -EBADFD);
    CHECK_EQ(weft_join(closer, NULL, WEFT_FOREVER), 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(weft_join(blocked[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_pread(copy, &byte, 1, 0, WEFT_FOREVER), 0); /* nothing was written */
    CHECK_EQ(weft_close(copy), 0);
    gone("f");
    return arg;
}

/* --- invalid descriptors ----------------------------------------------------------------- */

static void *refuses_numbers(void *arg)
{
    char byte = 0;
    struct statx st;
    struct iovec iov[2] = {{&byte, SIZE_MAX / 2}, {&byte, SIZE_MAX / 2}};
    /* AT_FDCWD is not a descriptor. */
    const int none[] = {-1, AT_FDCWD, INT_MIN, INT_MAX};
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_pread(none[i], &byte, 1, 0, WEFT_FOREVER), -EBADF);
        CHECK_EQ(weft_pwrite(none[i], &byte, 1, 0, WEFT_FOREVER), -EBADF);
        CHECK_EQ(weft_fsync(none[i], false, WEFT_FOREVER), -EBADF);
        CHECK_EQ(weft_ftruncate(none[i], 0, WEFT_FOREVER), -EBADF);
        CHECK_EQ(weft_fstat(none[i], &st, WEFT_FOREVER), -EBADF);
    }
    int fd = make("one", O_EXCL);
    CHECK_EQ(weft_write(fd, "abc", 3, WEFT_FOREVER), 3);
    CHECK_EQ(weft_pread(fd, &byte, 1, -1, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_pread(fd, &byte, 1, INT64_MIN, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_pread(fd, &byte, 1, INT64_MAX - 1, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pread(fd, &byte, 0, INT64_MAX, WEFT_FOREVER), 0);
    CHECK_EQ(weft_preadv(fd, iov, -1, 0, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_preadv(fd, iov, INT_MAX, 0, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_preadv(fd, iov, 0, 0, WEFT_FOREVER), 0);
    CHECK(weft_pwritev(fd, iov, 2, 0, WEFT_FOREVER) < 0); /* more than a call can count */
    CHECK_EQ(weft_ftruncate(fd, -1, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_ftruncate(fd, INT64_MIN, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_fstat(fd, &st, WEFT_FOREVER), 0);
    CHECK_EQ(st.stx_size, 3);
    CHECK_EQ(weft_close(fd), 0);
    gone("one");
    return arg;
}

EACH_DRIVER(bad_descriptors_and_offsets_are_refused_by_file_calls)
{
    on(driver, refuses_numbers);
}

TEST(queued_file_operation_can_be_ended_without_effect)
{
    on(WEFT_DRIVER_EPOLL, queued);
    on(WEFT_DRIVER_POLL, queued);
}

/* --- outside a worker ------------------------------------------------------------------------- */

TEST(plain_thread_uses_files)
{
    weft_fn fn = reads_and_writes;
    in_folder(&fn);
    fn = paths;
    in_folder(&fn);
}

TEST(compute_pool_uses_files_through_threads)
{
    weft_fn fn = reads_and_writes;
    const struct weft_pool_opts opts = {.workers = 1, .compute = true};
    CHECK_EQ(weft_run(NULL, in_folder, &fn, &opts, WEFT_FOREVER), 0);
}
