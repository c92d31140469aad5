/* A seccomp filter, as containers install it. For use in a child (check_child): it cannot be
 * removed. */
#ifndef WEFT_TEST_IO_SYSCALL_FILTER_H
#define WEFT_TEST_IO_SYSCALL_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "check.h"

/* The system call fails with this error from now on, in the calling thread and in threads that it
 * creates. Where filters are not available, the child exits as skipped. */
static void deny(long call, int err)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)err),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = 4, .filter = code};
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        _exit(CHECK_SKIPPED);
    }
}

__attribute__((unused)) static bool denied_is_skipped(int status)
{
    bool skipped = WIFEXITED(status) && WEXITSTATUS(status) == CHECK_SKIPPED;
    if (skipped) {
        printf("  system calls cannot be filtered here\n");
    }
    return skipped;
}

#endif
