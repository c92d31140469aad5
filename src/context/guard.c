#include "context/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define CANARY_BYTES 64
#define CANARY_BYTE 0xc5

/* A kernel, or an emulator of one, may accept the advice and ignore it. A system call that must
 * read the guarded page tells: it fails with EFAULT, without a signal, if the guard is real. */
static bool guard_is_real(const char *page)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return false;
    }
    bool real = write(ends[1], page, 1) < 0 && errno == EFAULT;
    close(ends[0]);
    close(ends[1]);
    return real;
}

static enum weft__guard best;

static void probe(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    best = WEFT__GUARD_MPROTECT;
    weft__san_probe();
    char *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (two == MAP_FAILED) {
        return;
    }
    if (madvise(two, page, MADV_GUARD_INSTALL) == 0 && guard_is_real(two)) {
        best = WEFT__GUARD_INSTALL;
    }
    munmap(two, 2 * page);
}

enum weft__guard weft__guard_best(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, probe);
    return best;
}

enum weft__guard weft__guard_place(enum weft__guard way, char *guard, char *bottom)
{
    size_t bytes = (size_t)(bottom - guard);
    /* Locked memory refuses guard markers (EINVAL), also if it was locked after the probe. */
    if (way == WEFT__GUARD_INSTALL && madvise(guard, bytes, MADV_GUARD_INSTALL) != 0) {
        way = WEFT__GUARD_MPROTECT;
    }
    /* Each guard takes two more mappings: the kernel's limit is reached at about 32,000 guards. */
    if (way == WEFT__GUARD_MPROTECT && mprotect(guard, bytes, PROT_NONE) != 0) {
        way = WEFT__GUARD_CANARY;
    }
    if (way == WEFT__GUARD_CANARY) {
        memset(bottom, CANARY_BYTE, CANARY_BYTES);
    }
    return way;
}

/* The calling process, as a pseudo descriptor that need not be open and that stays right after a
 * fork. */
#define PIDFD_OF_SELF (-10000)

bool weft__guard_install_many(const struct iovec *guards, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        bytes += guards[i].iov_len;
    }
    return syscall(SYS_process_madvise, PIDFD_OF_SELF, guards, n, MADV_GUARD_INSTALL, 0) ==
           (long)bytes;
}

bool weft__guard_canary_intact(const char *bottom)
{
    for (int i = 0; i < CANARY_BYTES; i++) {
        if ((unsigned char)bottom[i] != CANARY_BYTE) {
            return false;
        }
    }
    return true;
}
