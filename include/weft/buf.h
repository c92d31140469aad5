/* Buffers: bytes that are passed on, cut and joined without being copied.
 *
 * A weft_buf is a view of some bytes in a storage. The storage is reference-counted and lives as
 * long as any view of it; the view itself has one owner at a time, who may hand it to another
 * fiber, actor, pool or thread. So one frame goes to ten thousand connections as ten thousand views
 * of one storage, each with its own position.
 *
 *          base          data          data + len          end of the storage
 *            |  headroom  |    bytes    |     tailroom      |
 *
 * Words in the contracts:
 *   borrows         the caller keeps it
 *   takes           it is gone for the caller, freed by whoever has it now
 *   returns owned   the caller must free it or give it to somebody who takes it
 *   shares          another view of the same storage, both must be freed
 *
 * Bytes may be written only while the view is the only one of its storage (weft_buf_writable);
 * weft_buf_unshare makes it so. Views of one storage may be read and freed on different threads at
 * once; one view may not.
 *
 * Storage comes from pools of size classes, 128 bytes to 4 MiB in powers of two; what is larger
 * comes from the system each time. Up to 16 KiB each worker has a pool of its own, without locks: a
 * buffer that is freed on another thread is handed back to the worker it came from, and one whose
 * worker is gone is given to the system. Larger ones, and those of plain threads, are in one pool
 * under a small lock. Freeing twice stops the program; debug builds also find writing into a buffer
 * that was freed. Any thread may make and free buffers. None of these calls waits.
 */
#ifndef WEFT_BUF_H
#define WEFT_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <weft/export.h>

WEFT_BEGIN_DECLS

typedef struct weft_buf {
    unsigned char *data; /* the first byte; changed by the calls below only */
    size_t len;
    /* private */
    struct weft_buf *weft_next;
    struct weft__store *weft_store;
    struct weft__home *weft_home;
    uint32_t weft_state, weft_class;
    uint64_t weft_by;
    const void *weft_at;
} weft_buf;

/* --- one buffer ------------------------------------------------------------- */

/* An empty one with this much headroom, and room for at least `bytes` behind it, all writable. Its
 * bytes are not zeroed. Returns owned; NULL: no memory. */
WEFT_API weft_buf *weft_buf_alloc(size_t bytes, size_t headroom);
/* One with a copy of these bytes. Returns owned; NULL: no memory. */
WEFT_API weft_buf *weft_buf_copy(const void *bytes, size_t len);
/* One over the caller's memory, which it takes: release(memory, len, arg) is called once, when the
 * last view is freed, on whatever thread that is; NULL: nobody need be told. Never writable.
 * Returns owned; NULL: no memory, and the caller's memory was not taken. */
WEFT_API weft_buf *weft_buf_wrap(const void *memory, size_t len,
                                 void (*release)(const void *memory, size_t len, void *arg),
                                 void *arg);
/* Takes; NULL is nothing. It must not be in a chain. */
WEFT_API void weft_buf_free(weft_buf *buf);

/* Borrows `buf`, shares `len` of its bytes, beginning with number `from`, which must be there.
 * Returns owned; NULL: no memory. */
WEFT_API weft_buf *weft_buf_slice(const weft_buf *buf, size_t from, size_t len);
/* All of them. */
WEFT_API weft_buf *weft_buf_share(const weft_buf *buf);

/* True while this is the only view of a storage that Weft made. */
WEFT_API bool weft_buf_writable(const weft_buf *buf);
/* Takes, and returns owned a writable one with the same bytes: itself, or a copy. NULL: no memory,
 * and it is still the caller's. */
WEFT_API weft_buf *weft_buf_unshare(weft_buf *buf);

/* Bytes by which it may grow at the front and at the end; 0 while it is not writable. */
WEFT_API size_t weft_buf_headroom(const weft_buf *buf);
WEFT_API size_t weft_buf_tailroom(const weft_buf *buf);
/* Grows by n at the front: for a header that is written last. Returns the first of the new bytes.
 * More than the headroom is a caller's bug. */
WEFT_API unsigned char *weft_buf_push(weft_buf *buf, size_t n);
/* Grows by n at the end. Returns the first of the new bytes. More than the tailroom is a caller's
 * bug. */
WEFT_API unsigned char *weft_buf_put(weft_buf *buf, size_t n);
/* Shrinks by n at the front, or at the end. n > len is a caller's bug. Any view, writable or
 * not. */
WEFT_API void weft_buf_pull(weft_buf *buf, size_t n);
WEFT_API void weft_buf_trim(weft_buf *buf, size_t n);

/* --- chains ------------------------------------------------------------------- */

/* Buffers in a row that stand for their bytes in a row. All zero is an empty chain. It owns its
 * buffers; they are in no other. */
typedef struct weft_bufs {
    weft_buf *first; /* the next one by weft_bufs_next */
    size_t bytes, count;
    /* private */
    weft_buf *weft_last;
} weft_bufs;

/* NULL after the last. Borrowed. */
static inline weft_buf *weft_bufs_next(const weft_buf *buf)
{
    return buf->weft_next;
}

/* Take `buf`. */
WEFT_API void weft_bufs_append(weft_bufs *chain, weft_buf *buf);
WEFT_API void weft_bufs_prepend(weft_bufs *chain, weft_buf *buf);
/* Takes all of `from`, which is empty then, to the end of `chain`. */
WEFT_API void weft_bufs_join(weft_bufs *chain, weft_bufs *from);
/* Takes the first buffer out. Returns owned; NULL: the chain is empty. */
WEFT_API weft_buf *weft_bufs_shift(weft_bufs *chain);
/* Takes what lies behind the first `at` bytes to the end of `tail`. A buffer that lies across is
 * shared between both. 0, or -ENOMEM and nothing has changed. at > bytes is a caller's bug. */
WEFT_API int weft_bufs_split(weft_bufs *chain, size_t at, weft_bufs *tail);
/* Drops n bytes at the front, or at the end, and frees what is empty then. n > bytes is a caller's
 * bug. */
WEFT_API void weft_bufs_consume(weft_bufs *chain, size_t n);
WEFT_API void weft_bufs_trim(weft_bufs *chain, size_t n);
/* Shares everything in `from`, which it borrows, at the end of `chain`. 0, or -ENOMEM and nothing
 * has changed. */
WEFT_API int weft_bufs_share(weft_bufs *chain, const weft_bufs *from);
/* Makes the first n bytes lie in one buffer, by copying if need be: for a parser. 0, or -ENOMEM and
 * nothing has changed. n > bytes is a caller's bug. */
WEFT_API int weft_bufs_linearise(weft_bufs *chain, size_t n);
/* Copies up to n bytes, beginning with number `from`, to the caller's memory. Returns how many
 * there were. */
WEFT_API size_t weft_bufs_copy(const weft_bufs *chain, size_t from, void *to, size_t n);
/* For writev: fills up to `max` entries with what is not empty. Returns how many. They are borrowed
 * from the chain. */
WEFT_API int weft_bufs_iovec(const weft_bufs *chain, struct iovec *iov, int max);
/* For readv: fills up to `max` entries with the room behind the last byte: the tailroom of the last
 * buffer that is not empty, then that of the empty ones behind it. Returns how many. */
WEFT_API int weft_bufs_room(const weft_bufs *chain, struct iovec *iov, int max);
/* n bytes were written into that room, from its beginning. More than there is is a caller's bug. */
WEFT_API void weft_bufs_fill(weft_bufs *chain, size_t n);
/* Frees everything in it. */
WEFT_API void weft_bufs_free(weft_bufs *chain);

/* --- the pools ------------------------------------------------------------------ */

/* How much the pools keep, in bytes; 0: the default. While it has work a worker may keep twice as
 * much; the rest is given back when it runs out. */
struct weft_buf_limits {
    size_t worker_class; /* each worker, of one size class: 256 KiB; also what may be on its way
                            back to it */
    size_t worker;       /* each worker: 1 MiB */
    size_t shared_class; /* the common pool, of one size class: 16 MiB */
    size_t shared;       /* the common pool: 64 MiB */
};
/* NULL: the defaults. Holds for the whole process from now on. */
WEFT_API void weft_buf_set_limits(const struct weft_buf_limits *limits);

/* Gives everything that is kept back to the system: at once what is in the common pool and in the
 * calling worker's, the other workers' at their next tick or before they sleep next. Returns the
 * bytes that it gave back itself. */
WEFT_API size_t weft_buf_trim_pools(void);

/* Two kinds of headers (of slices, of wrapped memory), 128 bytes .. 4 MiB, and what is larger. */
#define WEFT_BUF_CLASSES 19

struct weft_buf_class_stats {
    size_t bytes;     /* of one buffer; 0: headers only, or (the last) larger than 4 MiB */
    uint64_t hits;    /* taken from what was kept */
    uint64_t misses;  /* taken from the system */
    uint64_t live;    /* in use */
    uint64_t kept;    /* in the pools, with those on their way back to a worker */
    uint64_t foreign; /* freed on another thread than that of the worker they came from */
};
struct weft_buf_stats {
    uint64_t hits, misses, live, kept, foreign; /* sums */
    size_t live_bytes, kept_bytes;              /* with the headers */
    struct weft_buf_class_stats classes[WEFT_BUF_CLASSES];
};
/* The whole process. Not one instant of all pools, but exact when they rest. */
WEFT_API void weft_buf_stats(struct weft_buf_stats *out);

WEFT_END_DECLS
#endif
