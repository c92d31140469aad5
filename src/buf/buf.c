/* One buffer: a view of a storage. buf/block.h describes the layout. */
#include <weft/buf.h>

#include <string.h>

#include "base/assert.h"
#include "base/nonnull.h"
#include "buf/block.h"
#include "buf/bufs.h"
#include "buf/shared_pool.h"
#include "buf/worker_cache.h"

/* --- storage ------------------------------------------------------------------- */

/* Initialises a view and a store in one block, with one reference. */
static weft_buf *init_view(weft_buf *block, unsigned char *data, size_t len)
{
    struct weft__store *store = weft__block_store(block);
    atomic_store_explicit(&store->refs, 1, memory_order_relaxed);
    block->data = data;
    block->len = len;
    block->weft_next = NULL;
    block->weft_store = store;
    return block;
}

/* The holder of the only reference has exclusive access: no other thread can create another.
 * Acquire: what the others did with their views is over. pairs: unref */
static inline bool is_exclusive(const struct weft__store *store)
{
    return atomic_load_explicit(&store->refs, memory_order_acquire) == 1;
}

static void unref(struct weft__store *store)
{
    WEFT__STEP();
    if (!is_exclusive(store) && atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acq_rel) !=
                                    1) { /* pairs: is_exclusive */
        return;
    }
    if (store->release) {
        void (*release)(const void *, size_t, void *) = store->release;
        store->release = NULL;
        release(store->base, store->bytes, store->arg);
    }
    weft__block_put(store->block);
}

/* --- allocate and free ----------------------------------------------------------------- */

weft_buf *weft_buf_alloc(size_t bytes, size_t headroom)
{
    size_t both = bytes + headroom;
    if (both < bytes || both > PTRDIFF_MAX - WEFT__BLOCK_HEAD) {
        return NULL;
    }
    weft_buf *block = weft__block_get(weft__class_of(both), both);
    return block ? init_view(block, weft__block_bytes(block) + headroom, 0) : NULL;
}

weft_buf *weft_buf_copy(const void *bytes, size_t len)
{
    weft_buf *buf = weft_buf_alloc(len, 0);
    if (buf && len) {
        memcpy(weft_buf_put(buf, len), bytes, len);
    }
    return buf;
}

static void no_release(const void *memory, size_t len, void *arg)
{
    (void)memory, (void)len, (void)arg;
}

weft_buf *weft_buf_wrap(const void *memory, size_t len,
                        void (*release)(const void *memory, size_t len, void *arg), void *arg)
{
    weft_buf *block = weft__block_get(WEFT__BLOCK_WRAP, 0);
    if (!block) {
        return NULL;
    }
    struct weft__store *store = weft__block_store(block);
    store->base = (unsigned char *)(uintptr_t)memory; /* never written: see weft_buf_is_writable */
    store->bytes = len;
    store->release = release ? release : no_release;
    store->arg = arg;
    return init_view(block, store->base, len);
}

void weft_buf_free(weft_buf *buf)
{
    if (!buf) {
        return;
    }
    if (__builtin_expect(buf->weft_state != WEFT__BLOCK_LIVE, 0)) {
        weft__block_panic(buf, "was freed twice");
    }
    if (WEFT_DEBUG) {
        weft__block_note_free(buf, __builtin_return_address(0));
    }
    struct weft__store *store = buf->weft_store;
    if (buf == store->block) {
        buf->weft_state = WEFT__BLOCK_GONE;
        unref(store);
    } else {
        unref(store);
        weft__block_put(buf);
    }
}

/* --- views -------------------------------------------------------------------------- */

weft_buf *weft_buf_slice(const weft_buf *buf, size_t from, size_t len)
{
    WEFT__NONNULL(buf);
    weft__block_check(buf);
    WEFT__REQUIRE(from <= buf->len && len <= buf->len - from,
                  "a slice of %zu bytes from %zu of a buffer of %zu", len, from, buf->len);
    weft_buf *view = weft__block_get(WEFT__BLOCK_SLICE, 0);
    if (!view) {
        return NULL;
    }
    /* Relaxed: other threads get the new view by an operation that synchronises by itself. */
    atomic_fetch_add_explicit(&buf->weft_store->refs, 1, memory_order_relaxed);
    view->data = buf->data + from;
    view->len = len;
    view->weft_next = NULL;
    view->weft_store = buf->weft_store;
    return view;
}

weft_buf *weft_buf_share(const weft_buf *buf)
{
    WEFT__NONNULL(buf);
    return weft_buf_slice(buf, 0, buf->len);
}

bool weft_buf_is_writable(const weft_buf *buf)
{
    WEFT__NONNULL(buf);
    weft__block_check(buf);
    return !buf->weft_store->release && is_exclusive(buf->weft_store);
}

/* --- headroom and tailroom ------------------------------------------------------------------ */

size_t weft__buf_headroom(const weft_buf *buf)
{
    WEFT__NONNULL(buf);
    return weft_buf_is_writable(buf) ? (size_t)(buf->data - buf->weft_store->base) : 0;
}

size_t weft_buf_tailroom(const weft_buf *buf)
{
    WEFT__NONNULL(buf);
    const struct weft__store *store = buf->weft_store;
    return weft_buf_is_writable(buf) ? store->bytes - (size_t)(buf->data - store->base) - buf->len
                                     : 0;
}

unsigned char *weft_buf_push(weft_buf *buf, size_t n)
{
    WEFT__NONNULL(buf);
    WEFT__REQUIRE(n <= weft__buf_headroom(buf), "weft_buf_push of %zu with a headroom of %zu%s", n,
                  weft__buf_headroom(buf), weft_buf_is_writable(buf) ? "" : ": it is not writable");
    buf->data -= n;
    buf->len += n;
    return buf->data;
}

unsigned char *weft_buf_put(weft_buf *buf, size_t n)
{
    WEFT__NONNULL(buf);
    WEFT__REQUIRE(n <= weft_buf_tailroom(buf), "weft_buf_put of %zu with a tailroom of %zu%s", n,
                  weft_buf_tailroom(buf), weft_buf_is_writable(buf) ? "" : ": it is not writable");
    buf->len += n;
    return buf->data + buf->len - n;
}

void weft_buf_pull(weft_buf *buf, size_t n)
{
    WEFT__NONNULL(buf);
    weft__block_check(buf);
    WEFT__REQUIRE(n <= buf->len, "weft_buf_pull of %zu from %zu bytes", n, buf->len);
    buf->data += n;
    buf->len -= n;
}

void weft_buf_trim(weft_buf *buf, size_t n)
{
    WEFT__NONNULL(buf);
    weft__block_check(buf);
    WEFT__REQUIRE(n <= buf->len, "weft_buf_trim of %zu from %zu bytes", n, buf->len);
    buf->len -= n;
}

/* --- the pools --------------------------------------------------------------------------- */

/* A limit that large means no limit; it is capped because the numbers that are compared with it are
 * doubled, signed, or added to. */
static void set_limit(_Atomic(size_t) *limit, size_t given, size_t standard)
{
    const size_t most = SIZE_MAX / 8;
    size_t bytes = given ? given : standard;
    atomic_store_explicit(limit, bytes < most ? bytes : most, memory_order_relaxed);
}

void weft_buf_set_limits(const struct weft_buf_limits *limits)
{
    struct weft_buf_limits l = {0};
    if (limits) {
        l = *limits;
    }
    set_limit(&weft__buf_limits.worker_class, l.worker_class, WEFT__LIMIT_WORKER_CLASS);
    set_limit(&weft__buf_limits.worker, l.worker, WEFT__LIMIT_WORKER);
    set_limit(&weft__buf_limits.shared_class, l.shared_class, WEFT__LIMIT_SHARED_CLASS);
    set_limit(&weft__buf_limits.shared, l.shared, WEFT__LIMIT_SHARED);
}

size_t weft__buf_trim_pools(void)
{
    struct weft__buf_cache *cache = weft__buf_cache_self();
    size_t bytes = weft__buf_shared_trim();
    weft__buf_cache_request_trim();
    if (cache) {
        weft__buf_cache_tick(cache); /* drains the blocks in transit */
        bytes += weft__buf_cache_trim(cache);
    }
    return bytes;
}

void weft_buf_stats(struct weft_buf_stats *out)
{
    WEFT__NONNULL(out);
    memset(out, 0, sizeof *out);
    for (unsigned class = 0; class < WEFT_BUF_CLASSES; class ++) {
        struct weft_buf_class_stats *c = &out->classes[class];
        size_t larger;
        c->bytes = weft__class_bytes(class);
        weft__buf_shared_add_stats(class, c, &larger);
        if (class < WEFT__BLOCK_SMALL) {
            weft__buf_cache_add_stats(class, c);
        }
        out->hits += c->hits;
        out->misses += c->misses;
        out->live += c->live;
        out->kept += c->kept;
        out->foreign += c->foreign;
        out->live_bytes += c->live * weft__class_total(class);
        out->live_bytes += class == WEFT__BLOCK_LARGER ? larger : 0;
        out->kept_bytes += c->kept * weft__class_total(class);
    }
}
