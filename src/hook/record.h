/* What the hooks know of a descriptor: its kind, and whether it was made non-blocking by them.
 *
 * The kernel's own state is used wherever it can be: O_NONBLOCK is the user's wish, SO_RCVTIMEO and
 * SO_SNDTIMEO are asked for when a call would wait. So copies of a descriptor agree, and what was
 * set before the hooks came, or past them, counts. Bytes move by calls that do not block by
 * themselves (MSG_DONTWAIT, RWF_NOWAIT). Only accept and connect have no such form: a socket is
 * made non-blocking for them, and from then on the user's wish is kept here (SYSTEM, USER).
 *
 * A number may be closed past the hooks, say by fclose, and come again. Calls that make descriptors
 * forget what was known. Others are found out by their identity before a wait, or because a call
 * answers that it is not the kind it was.
 */
#ifndef WEFT_HOOK_RECORD_H
#define WEFT_HOOK_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

enum {
    WEFT__HOOK_SOCKET = 1,
    WEFT__HOOK_FILE = 2,   /* of a disk: always ready, and slow */
    WEFT__HOOK_STREAM = 3, /* a pipe, a terminal, an eventfd ... */
    WEFT__HOOK_KIND = 3,   /* 0: not known */
    WEFT__HOOK_FIFO = 4,   /* a stream that is a pipe */
    WEFT__HOOK_SYSTEM = 8, /* non-blocking by us */
    WEFT__HOOK_USER = 16,  /* with SYSTEM: by the user as well */
};

struct weft__hook_record {
    _Atomic(uint32_t) flags;
    _Atomic(uint64_t) identity;
};

/* NULL: no such number, or no memory. */
struct weft__hook_record *weft__hook_record(int fd);
/* NULL also if nothing was ever known about it. */
struct weft__hook_record *weft__hook_record_if_any(int fd);

/* Flags of a descriptor, looked at if need be. 0: it is none, or nothing can be known of it. */
unsigned weft__hook_flags(int fd);
/* The same, looked at anew. */
unsigned weft__hook_look(int fd);

/* The number has just come from the kernel, or is about to go. Ends waits for what it was, here and
 * in the runtime. */
void weft__hook_forget(int fd);
/* `to` is a new copy of `from`. */
void weft__hook_copy(int from, int to);

/* Before a wait: what is known is still about this descriptor; else it is looked at anew. */
void weft__hook_verify(int fd);

/* The record of a socket that is non-blocking by us; else NULL. */
struct weft__hook_record *weft__hook_unblocked(int fd);
/* The user wants calls on it not to block. */
bool weft__hook_nonblocking(int fd);
/* Makes a socket non-blocking, for us. False: the user has, or it is none. */
bool weft__hook_unblock(int fd);
/* Takes that back. */
void weft__hook_block(int fd);

#endif
