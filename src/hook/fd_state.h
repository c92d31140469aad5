/* The recorded state of a descriptor: its kind, and whether the hooks made it non-blocking.
 *
 * The kernel's own state is used wherever possible: O_NONBLOCK is the user's setting, SO_RCVTIMEO
 * and SO_SNDTIMEO are read when a call would wait. So duplicates of a descriptor agree, and
 * settings made before the hooks were loaded, or without them, count. Data is transferred by calls
 * that do not block by themselves (MSG_DONTWAIT, RWF_NOWAIT). Only accept and connect have no such
 * form: a socket is made non-blocking for them, and from then on the user's setting is recorded
 * here (SYSTEM, USER).
 *
 * A number may be closed without the hooks, for example by fclose, and be reused. Calls that create
 * descriptors discard the recorded state. Other reuse is detected by the descriptor's identity
 * before a wait, or by a call's error that says the descriptor is not of the recorded kind.
 */
#ifndef WEFT_HOOK_FD_STATE_H
#define WEFT_HOOK_FD_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

enum {
    WEFT__HOOK_SOCKET = 1,
    WEFT__HOOK_FILE = 2,            /* on a disk: always ready, and slow */
    WEFT__HOOK_STREAM = 3,          /* a pipe, a terminal, an eventfd ... */
    WEFT__HOOK_KIND = 3,            /* 0: unknown */
    WEFT__HOOK_FIFO = 4,            /* a stream that is a pipe */
    WEFT__HOOK_FORCED_NONBLOCK = 8, /* made non-blocking by the hooks */
    WEFT__HOOK_USER_NONBLOCK = 16,  /* with SYSTEM: non-blocking by the user as well */
};

struct weft__hook_fd {
    _Atomic(uint32_t) flags;
    _Atomic(uint64_t) identity;
};

/* NULL: no such number, or no memory. */
struct weft__hook_fd *weft__hook_fd(int fd);
/* NULL also if no record was ever created for it. */
struct weft__hook_fd *weft__hook_fd_if_any(int fd);

/* The flags of a descriptor, inspected if they are unknown. 0: not open, or no record is
 * possible. */
unsigned weft__hook_fd_flags(int fd);
/* Inspect the descriptor and record its flags. */
unsigned weft__hook_fd_inspect(int fd);

/* The number was just returned by the kernel, or is about to be closed. Ends the waits for its
 * former descriptor, in the hooks and in libweft. */
void weft__hook_fd_forget(int fd);
/* `to` is a new duplicate of `from`. */
void weft__hook_fd_copy(int from, int to);

/* Before a wait: check that the recorded state is about this descriptor; inspect the descriptor
 * again if not. */
void weft__hook_fd_verify(int fd);

/* The record of a socket that the hooks made non-blocking; otherwise NULL. */
struct weft__hook_fd *weft__hook_fd_if_forced(int fd);
/* True: the user made it non-blocking. */
bool weft__hook_fd_is_nonblocking(int fd);
/* Make a socket non-blocking for the hooks. False: the user did already, or it is not a socket. */
bool weft__hook_fd_force_nonblocking(int fd);
/* Undo weft__hook_fd_force_nonblocking. */
void weft__hook_fd_restore_blocking(int fd);

#endif
