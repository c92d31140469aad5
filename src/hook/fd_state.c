#include "hook/fd_state.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <weft/io.h>

#include "hook/real_calls.h"

#define PAGE_RECORDS 1024u
#define PAGES 4096u

static _Atomic(struct weft__hook_fd *) pages[PAGES];

static struct weft__hook_fd *page_make(unsigned index)
{
    size_t bytes = PAGE_RECORDS * sizeof(struct weft__hook_fd);
    struct weft__hook_fd *none = NULL, *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return NULL;
    }
    if (!atomic_compare_exchange_strong_explicit(&pages[index], &none, page, memory_order_acq_rel,
                                                 memory_order_acquire)) {
        munmap(page, bytes);
        page = none;
    }
    return page;
}

static struct weft__hook_fd *find(int fd, bool make)
{
    unsigned index = (unsigned)fd / PAGE_RECORDS;
    if (fd < 0 || index >= PAGES) {
        return NULL;
    }
    struct weft__hook_fd *page = atomic_load_explicit(&pages[index], memory_order_acquire);
    page = page || !make ? page : page_make(index);
    return page ? page + (unsigned)fd % PAGE_RECORDS : NULL;
}

struct weft__hook_fd *weft__hook_fd(int fd)
{
    return find(fd, true);
}

/* A program that closes all possible numbers must not create a record for each. */
struct weft__hook_fd *weft__hook_fd_if_any(int fd)
{
    return find(fd, false);
}

/* The flags describe the identity that was stored before them. */
static unsigned load_flags(const struct weft__hook_fd *record)
{
    return atomic_load_explicit(&record->flags, memory_order_acquire); /* pairs: store_flags */
}

static void store_flags(struct weft__hook_fd *record, uint64_t identity, unsigned flags)
{
    atomic_store_explicit(&record->identity, identity, memory_order_relaxed);
    atomic_store_explicit(&record->flags, flags, memory_order_release); /* pairs: load_flags */
}

static uint64_t identity_of(const struct stat *st)
{
    return (uint64_t)st->st_ino ^ (uint64_t)st->st_dev << 40 ^
           (uint64_t)(st->st_mode & S_IFMT) << 48;
}

static unsigned kind_of(const struct stat *st)
{
    if (S_ISSOCK(st->st_mode)) {
        return WEFT__HOOK_SOCKET;
    }
    if (S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISBLK(st->st_mode)) {
        return WEFT__HOOK_FILE;
    }
    return WEFT__HOOK_STREAM | (S_ISFIFO(st->st_mode) ? WEFT__HOOK_FIFO : 0);
}

unsigned weft__hook_fd_inspect(int fd)
{
    struct weft__hook_fd *record = weft__hook_fd(fd);
    struct stat st;
    int before = errno;
    unsigned flags = record && fstat(fd, &st) == 0 ? kind_of(&st) : 0;
    if (flags) {
        store_flags(record, identity_of(&st), flags);
    }
    errno = before;
    return flags;
}

unsigned weft__hook_fd_flags(int fd)
{
    const struct weft__hook_fd *record = weft__hook_fd(fd);
    unsigned flags = record ? load_flags(record) : 0;
    return flags || !record ? flags : weft__hook_fd_inspect(fd);
}

void weft__hook_fd_forget(int fd)
{
    struct weft__hook_fd *record = weft__hook_fd_if_any(fd);
    if (!weft__hook_is_own_process()) {
        return;
    }
    if (record) {
        atomic_store_explicit(&record->flags, 0, memory_order_relaxed);
    }
    /* A caller that cannot wait for operations to end leaves that to the next waiter for the number
     * (weft__hook_fd_verify). */
    if (atomic_load_explicit(&weft__hook_attached, memory_order_relaxed) && weft__hook_can_wait()) {
        weft_fd_release(fd); /* -EBADF: libweft does not use the descriptor */
    }
}

void weft__hook_fd_copy(int from, int to)
{
    const struct weft__hook_fd *source = weft__hook_fd(from);
    struct weft__hook_fd *record = weft__hook_fd(to);
    if (!source || !record || !weft__hook_is_own_process()) {
        return;
    }
    weft__hook_fd_forget(to);
    unsigned flags = load_flags(source);
    store_flags(record, atomic_load_explicit(&source->identity, memory_order_relaxed), flags);
}

void weft__hook_fd_verify(int fd)
{
    const struct weft__hook_fd *record = weft__hook_fd(fd);
    struct stat st;
    int before = errno;
    if (record && fstat(fd, &st) == 0 &&
        (load_flags(record) == 0 ||
         atomic_load_explicit(&record->identity, memory_order_relaxed) != identity_of(&st))) {
        weft__hook_fd_forget(fd);
        weft__hook_fd_inspect(fd);
    }
    errno = before;
}

/* --- non-blocking mode: the user's or the hooks' ---------------------------------------------- */

struct weft__hook_fd *weft__hook_fd_if_forced(int fd)
{
    struct weft__hook_fd *record = weft__hook_fd_if_any(fd);
    if (!record || !(load_flags(record) & WEFT__HOOK_FORCED_NONBLOCK)) {
        return NULL;
    }
    weft__hook_fd_verify(fd);
    return load_flags(record) & WEFT__HOOK_FORCED_NONBLOCK ? record : NULL;
}

bool weft__hook_fd_is_nonblocking(int fd)
{
    const struct weft__hook_fd *record = weft__hook_fd(fd);
    unsigned flags = record ? load_flags(record) : 0;
    if (flags & WEFT__HOOK_FORCED_NONBLOCK) {
        return (flags & WEFT__HOOK_USER_NONBLOCK) != 0;
    }
    int mode = weft__real()->fcntl(fd, F_GETFL);
    return mode >= 0 && (mode & O_NONBLOCK);
}

bool weft__hook_fd_force_nonblocking(int fd)
{
    weft__hook_fd_verify(fd);
    struct weft__hook_fd *record = weft__hook_fd(fd);
    if (!record || (load_flags(record) & WEFT__HOOK_KIND) != WEFT__HOOK_SOCKET) {
        return false;
    }
    if (load_flags(record) & WEFT__HOOK_FORCED_NONBLOCK) {
        return !(load_flags(record) & WEFT__HOOK_USER_NONBLOCK);
    }
    int mode = weft__real()->fcntl(fd, F_GETFL);
    if (mode < 0 || (mode & O_NONBLOCK)) {
        return false;
    }
    atomic_fetch_or_explicit(&record->flags, WEFT__HOOK_FORCED_NONBLOCK, memory_order_relaxed);
    if (weft__real()->fcntl(fd, F_SETFL, mode | O_NONBLOCK) == 0) {
        return true;
    }
    atomic_fetch_and_explicit(&record->flags, ~(uint32_t)WEFT__HOOK_FORCED_NONBLOCK,
                              memory_order_relaxed);
    return false;
}

void weft__hook_fd_restore_blocking(int fd)
{
    struct weft__hook_fd *record = weft__hook_fd(fd);
    int mode = record && (load_flags(record) & WEFT__HOOK_FORCED_NONBLOCK)
                   ? weft__real()->fcntl(fd, F_GETFL)
                   : -1;
    if (mode < 0) {
        return;
    }
    if (!(load_flags(record) & WEFT__HOOK_USER_NONBLOCK)) {
        weft__real()->fcntl(fd, F_SETFL, mode & ~O_NONBLOCK);
    }
    atomic_fetch_and_explicit(&record->flags,
                              ~(uint32_t)(WEFT__HOOK_FORCED_NONBLOCK | WEFT__HOOK_USER_NONBLOCK),
                              memory_order_relaxed);
}
