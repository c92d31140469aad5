/* Paths of Unix sockets: a stale socket file is taken over; a live socket or another kind of file
 * is not touched. */
/* labels: valgrind */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/drivers.h"

static char folder[64], address[128], other[128];
static const char *path, *other_path;

static void begin(void)
{
    snprintf(folder, sizeof folder, "/tmp/weft-path-XXXXXX");
    CHECK(mkdtemp(folder));
    snprintf(address, sizeof address, "unix:%s/sock", folder);
    snprintf(other, sizeof other, "unix:%s/other", folder);
    path = address + 5;
    other_path = other + 5;
}

static void end(void)
{
    CHECK_EQ(rmdir(folder), 0);
}

static ino_t number(const char *of)
{
    struct stat st;
    CHECK_EQ(lstat(of, &st), 0);
    return st.st_ino;
}

static bool is_there(const char *of)
{
    struct stat st;
    return lstat(of, &st) == 0;
}

TEST(stale_unix_socket_path_is_taken_over)
{
    begin();
    for (int i = 0; i < 3; i++) {
        int fd = weft_listen(address, NULL);
        CHECK(fd >= 0);
        int client = weft_dial(address, NULL, WEFT_FOREVER);
        CHECK(client >= 0);
        CHECK_EQ(weft_close(client), 0);
        CHECK_EQ(weft_close(fd), 0);
        CHECK(is_there(path)); /* as after SIGKILL */
    }
    CHECK_EQ(unlink(path), 0);
    end();
}

TEST(live_unix_socket_path_is_eaddrinuse)
{
    begin();
    int fd = weft_listen(address, NULL);
    ino_t before = number(path);
    CHECK(fd >= 0);
    CHECK_EQ(weft_listen(address, NULL), -EADDRINUSE);
    CHECK_EQ(weft_datagram_open(address, NULL), -EADDRINUSE); /* a socket of another type */
    CHECK_EQ(number(path), before);
    int client = weft_dial(address, NULL, WEFT_FOREVER);
    CHECK(client >= 0);
    CHECK_EQ(weft_close(client), 0);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(unlink(path), 0);
    end();
}

/* A socket whose backlog is full is live, too. */
TEST(unix_socket_path_with_full_backlog_is_eaddrinuse)
{
    int clients[8], n = 0;
    begin();
    int fd = weft_listen(address, &(struct weft_listen_opts){.backlog = 1});
    CHECK(fd >= 0);
    while (n < 8 && (clients[n] = weft_dial(address, NULL, 0)) >= 0) {
        n++;
    }
    CHECK(n > 0 && n < 8);
    CHECK_EQ(weft_listen(address, NULL), -EADDRINUSE);
    CHECK(is_there(path));
    while (n) {
        CHECK_EQ(weft_close(clients[--n]), 0);
    }
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(unlink(path), 0);
    end();
}

static void stays(void)
{
    ino_t before = number(path);
    CHECK_EQ(weft_listen(address, NULL), -EEXIST);
    CHECK_EQ(weft_datagram_open(address, NULL), -EEXIST);
    CHECK_EQ(number(path), before);
}

TEST(path_that_is_not_socket_is_kept)
{
    begin();
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(close(fd), 0);
    stays();
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(mkdir(path, 0700), 0);
    stays();
    CHECK_EQ(rmdir(path), 0);
    CHECK_EQ(symlink("nowhere", path), 0);
    stays();
    CHECK_EQ(unlink(path), 0);
    /* A link to the socket of a process that is gone: neither is removed. */
    fd = weft_listen(other, NULL);
    CHECK(fd >= 0);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(symlink("other", path), 0);
    stays();
    CHECK(is_there(other_path));
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(unlink(other_path), 0);
    end();
}

TEST(unix_listen_in_missing_directory_returns_enoent)
{
    CHECK_EQ(weft_listen("unix:/tmp/weft-path-nowhere/sock", NULL), -ENOENT);
}
