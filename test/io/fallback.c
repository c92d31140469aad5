/* Where io_uring cannot be had, `auto` comes to epoll, and the dump says why. A filter on system calls plays the machine. */
/* not under: qemu valgrind */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "io/drivers.h"

/* io_uring_setup answers so from now on, in this process. */
static void forbid(int err)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)err),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = 4, .filter = code};
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        _exit(CHECK_SKIPPED);
    }
}

static void *uses(void *arg)
{
    char byte;
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    CHECK_EQ(weft_read(ends[0], &byte, 1, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_write(ends[1], "x", 1, WEFT_FOREVER), 1);
    CHECK_EQ(weft_read(ends[0], &byte, 1, WEFT_FOREVER), 1);
    weft_pool_dump(weft_pool_self(), stderr, 0);
    return arg;
}

static void falls_back(void *arg)
{
    weft_pool *pool;
    weft_loop *loop;
    int err = *(int *)arg;
    unsetenv("WEFT_DRIVER");
    forbid(err);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.driver = WEFT_DRIVER_URING}),
             -EOPNOTSUPP);
    CHECK_EQ(weft_loop_create(&loop, &(struct weft_loop_opts){.driver = WEFT_DRIVER_URING}),
             -EOPNOTSUPP);
    CHECK_EQ(weft_loop_create(&loop, NULL), 0);
    CHECK_STR(weft_loop_driver(loop), "epoll");
    weft_loop_destroy(loop);
    CHECK_EQ(weft_run(uses, NULL, NULL, NULL), 0);
}

static void check_reason(int err, const char *reason)
{
    static char text[65536];
    int status = check_child(falls_back, &err, text, sizeof text);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHECK_SKIPPED) {
        printf("  system calls cannot be filtered here\n");
        return;
    }
    if (status != 0) {
        fprintf(stderr, "%s\n", text);
    }
    CHECK_EQ(status, 0);
    CHECK(strstr(text, "epoll"));
    CHECK(strstr(text, reason));
}

/* In a child, as all here: what a process has found out it does not ask again. */
static void has_ring(void *arg)
{
    (void)arg;
    if (!drivers_have(WEFT_DRIVER_URING)) {
        _exit(CHECK_SKIPPED);
    }
}

TEST(auto_comes_to_epoll)
{
    char text[256];
    if (check_child(has_ring, NULL, text, sizeof text) != 0) {
        check_skip("there is no io_uring to do without");
    }
    check_reason(EPERM, "io_uring is forbidden here (EPERM)");
    check_reason(EACCES, "io_uring is forbidden here (EPERM)");
    check_reason(ENOSYS, "there is no io_uring here (ENOSYS)");
    check_reason(ENOMEM, "there is no memory for io_uring (ENOMEM)");
    check_reason(EINVAL, "io_uring is too old here");
    check_reason(EMFILE, "io_uring could not be set up");
}
