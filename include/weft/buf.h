/* Buffers: bytes that are passed on, sliced and joined without being copied.
 *
 * A weft_buf is a view of some bytes in a storage. The storage is reference-counted and lives as
 * long as any view of it; a view has one owner at a time, which may hand it to another fiber,
 * actor, pool or thread. So one frame can be sent to ten thousand connections as ten thousand views
 * of one storage, each with its own position.
 *
 *          base          data          data + len          end of the storage
 *            |  headroom  |    bytes    |     tailroom      |
 *
 * Ownership words in the contracts:
 *   borrows         the caller keeps it
 *   takes           the callee owns and frees it; the caller must not use it again
 *   returns owned   the caller must free it or pass it to a call that takes it
 *   shares          another view of the same storage; both must be freed
 *
 * Bytes may be written only while the view is the only one of its storage (weft_buf_is_writable);
 * weft_buf_copy makes a writable copy. Views of one storage may be read and freed on different
 * threads concurrently; a single view may not.
 *
 * Storage comes from pools of size classes, 128 bytes to 4 MiB in powers of two; larger buffers
 * come from the system each time. For classes up to 16 KiB each worker has its own lock-free cache:
 * a buffer that is freed on another thread is returned to the worker it came from, and a buffer
 * whose worker is gone is freed to the system. Larger buffers, and those of plain threads, use one
 * shared pool under a small lock. A double free stops the program; debug builds also detect writes
 * to a freed buffer.
 *
 * No call in this header waits. A view or a chain is used by one thread at a time, its owner's.
 */
#ifndef WEFT_BUF_H
#define WEFT_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <weft/base.h>

WEFT_BEGIN_DECLS

typedef struct weft_buf {
    unsigned char *data; /* the first byte; changed only by the calls below */
    size_t len;
    /* private */
    struct weft_buf *weft_next;
    struct weft__store *weft_store;
    struct weft__buf_cache *weft_cache;
    uint32_t weft_state, weft_class;
    uint64_t weft_freed_by;
    const void *weft_freed_at;
} weft_buf;

/* --- one buffer ------------------------------------------------------------- */

/* Allocate an empty writable buffer with this headroom and at least `bytes` of tailroom. The bytes
 * are not zeroed.
 * Returns an owned buffer; NULL if memory runs out.
 * Context: any thread; does not wait. */
WEFT_API weft_buf *weft_buf_alloc(size_t bytes, size_t headroom);
/* Allocate a buffer with a copy of these bytes.
 * Returns an owned buffer; NULL if memory runs out.
 * Context: any thread; does not wait. */
WEFT_API weft_buf *weft_buf_copy(const void *bytes, size_t len);
/* Wrap the caller's memory in a buffer, which takes the memory. The buffer is never writable.
 * release: release(memory, len, arg) is called once, when the last view is freed, on the thread
 * that frees it; NULL if no call is needed.
 * Returns an owned buffer; NULL if memory runs out, and then the memory was not taken.
 * Context: any thread; does not wait. */
WEFT_API weft_buf *weft_buf_wrap(const void *memory, size_t len,
                                 void (*release)(const void *memory, size_t len, void *arg),
                                 void *arg);
/* Free a view; takes it. NULL is ignored. The view must not be in a chain.
 * Context: the view's owner; does not wait. */
WEFT_API void weft_buf_free(weft_buf *buf);

/* Create a view of `len` bytes of `buf`, starting at offset `from`: borrows buf, shares its
 * storage. A range outside the buffer stops the program.
 * Returns an owned view; NULL if memory runs out.
 * Context: the view's owner; does not wait. */
WEFT_API weft_buf *weft_buf_slice(const weft_buf *buf, size_t from, size_t len);
/* Create a view of all bytes of `buf`, as weft_buf_slice does.
 * Returns an owned view; NULL if memory runs out.
 * Context: the view's owner; does not wait. */
WEFT_API weft_buf *weft_buf_share(const weft_buf *buf);

/* Report whether this is the only view of a storage that Weft allocated.
 * Returns true if the bytes may be written.
 * Context: the view's owner; does not wait. */
WEFT_API bool weft_buf_is_writable(const weft_buf *buf);

/* Read how many bytes the view can grow at the end.
 * Returns the number of bytes; 0 while the view is not writable.
 * Context: the view's owner; does not wait. */
WEFT_API size_t weft_buf_tailroom(const weft_buf *buf);
/* Grow the view by n bytes at the front, e.g. for a header that is written last. More than the
 * headroom stops the program.
 * Returns a pointer to the first new byte.
 * Context: the view's owner; does not wait. */
WEFT_API unsigned char *weft_buf_push(weft_buf *buf, size_t n);
/* Grow the view by n bytes at the end. More than the tailroom stops the program.
 * Returns a pointer to the first new byte.
 * Context: the view's owner; does not wait. */
WEFT_API unsigned char *weft_buf_put(weft_buf *buf, size_t n);
/* Shrink the view by n bytes, at the front (pull) or at the end (trim). Works on any view, writable
 * or not. n > len stops the program.
 * Context: the view's owner; does not wait. */
WEFT_API void weft_buf_pull(weft_buf *buf, size_t n);
WEFT_API void weft_buf_trim(weft_buf *buf, size_t n);

/* --- chains ------------------------------------------------------------------- */

/* A chain: a list of buffers that represents the concatenation of their bytes. All-zero bytes are
 * an empty chain. A chain owns its buffers; a buffer is in at most one chain. */
typedef struct weft_bufs {
    weft_buf *first; /* iterate with weft_bufs_next */
    size_t bytes, count;
    /* private */
    weft_buf *weft_last;
} weft_bufs;

/* Return the next buffer of the chain, borrowed; NULL after the last.
 * Context: the chain's owner; does not wait. */
static inline weft_buf *weft_bufs_next(const weft_buf *buf)
{
    return buf->weft_next;
}

/* Add a buffer at the end (append) or at the front (prepend). Take buf.
 * Context: the chain's owner; does not wait. */
WEFT_API void weft_bufs_append(weft_bufs *chain, weft_buf *buf);
WEFT_API void weft_bufs_prepend(weft_bufs *chain, weft_buf *buf);
/* Move all buffers of `from` to the end of `chain`; `from` is empty afterwards. The two must be
 * different chains, otherwise the program stops.
 * Context: the chain's owner; does not wait. */
WEFT_API void weft_bufs_join(weft_bufs *chain, weft_bufs *from);
/* Remove the first buffer.
 * Returns the buffer, owned; NULL if the chain is empty.
 * Context: the chain's owner; does not wait. */
WEFT_API weft_buf *weft_bufs_shift(weft_bufs *chain);
/* Drop n bytes at the front, and free the buffers that become empty. n > chain->bytes stops the
 * program.
 * Context: the chain's owner; does not wait. */
WEFT_API void weft_bufs_consume(weft_bufs *chain, size_t n);
/* Make the first n bytes contiguous in one buffer, e.g. for a parser; copies only if needed. n >
 * chain->bytes stops the program.
 * Returns 0; -ENOMEM, and then nothing has changed.
 * Context: the chain's owner; does not wait. */
WEFT_API int weft_bufs_linearise(weft_bufs *chain, size_t n);
/* Copy up to n bytes, starting at offset `from`, into the caller's memory.
 * Returns the number of bytes copied.
 * Context: the chain's owner; does not wait. */
WEFT_API size_t weft_bufs_copy(const weft_bufs *chain, size_t from, void *to, size_t n);
/* Fill up to `max` iovec entries with the non-empty buffers, for writev. The entries borrow from
 * the chain.
 * Returns the number of entries.
 * Context: the chain's owner; does not wait. */
WEFT_API int weft_bufs_iovec(const weft_bufs *chain, struct iovec *iov, int max);
/* Free all buffers of the chain; the chain is empty afterwards.
 * Context: the chain's owner; does not wait. */
WEFT_API void weft_bufs_free(weft_bufs *chain);

/* --- the pools ------------------------------------------------------------------ */

/* How many bytes the pools keep; 0: the default. While it has work, a worker may keep twice as
 * much; it frees the excess when it runs out of work. */
struct weft_buf_limits {
    size_t worker_class; /* per worker and size class: 256 KiB; also limits what is in transit back
                          * to the worker */
    size_t worker;       /* per worker: 1 MiB */
    size_t shared_class; /* shared pool, per size class: 16 MiB */
    size_t shared;       /* shared pool: 64 MiB */
};
/* Set the limits for the whole process from now on; NULL sets the defaults. Borrows limits for the
 * call.
 * Context: any thread; does not wait. */
WEFT_API void weft_buf_set_limits(const struct weft_buf_limits *limits);

/* Two header classes (slices, wrapped memory), 128 bytes .. 4 MiB, and larger buffers. */
#define WEFT_BUF_CLASSES 19

struct weft_buf_class_stats {
    size_t bytes;     /* per buffer; 0: headers only, or (the last class) larger than 4 MiB */
    uint64_t hits;    /* served from kept buffers */
    uint64_t misses;  /* served from the system */
    uint64_t live;    /* in use */
    uint64_t kept;    /* in the pools, including those in transit back to a worker */
    uint64_t foreign; /* freed on another thread than the worker they came from */
};
struct weft_buf_stats {
    uint64_t hits, misses, live, kept, foreign; /* sums */
    size_t live_bytes, kept_bytes;              /* including headers */
    struct weft_buf_class_stats classes[WEFT_BUF_CLASSES];
};
/* Read the counters of the whole process. The pools are not read at one instant; the numbers are
 * exact while no other thread allocates or frees buffers. out must not be NULL.
 * Context: any thread; does not wait. */
WEFT_API void weft_buf_stats(struct weft_buf_stats *out);

WEFT_END_DECLS
#endif
