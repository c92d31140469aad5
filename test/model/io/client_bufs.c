/* Clients of buf/remote_free.h, buf/worker_cache.c and buf/buf.c: buffers freed on other threads,
 * worker caches that close, views that end on different threads. T0 owns the worker cache; the
 * others are plain threads. */
#include <string.h>

#include <weft/buf.h>

#include "buf/block.h"
#include "buf/shared_pool.h"
#include "buf/worker_cache.h"
#include "model/explore.h"

static struct weft__buf_cache cache;
static weft_buf *bufs[3];
static weft_buf *views[2];
static bool is_shut;

struct weft__buf_cache *weft__buf_cache_self(void)
{
    return x_thread() <= 0 ? &cache : NULL; /* also for setup and check */
}

uint64_t weft__buf_fiber(void)
{
    return 0;
}

static void setup(void)
{
    memset(&cache, 0, sizeof cache);
    is_shut = false;
    weft__remote_free_open(&cache.remote_free);
    x_name(&cache, sizeof cache, "home");
    weft_buf_set_limits(NULL);
    for (int i = 0; i < 3; i++) {
        bufs[i] = weft_buf_alloc(8, 0);
        *weft_buf_put(bufs[i], 1) = 0;
        x_name(bufs[i], sizeof(weft_buf), "buf");
    }
}

static void setup_views(void)
{
    setup();
    views[0] = weft_buf_share(bufs[0]);
    views[1] = weft_buf_slice(bufs[0], 0, 1);
}

/* At most one may be in flight. */
static void setup_narrow(void)
{
    setup();
    weft_buf_set_limits(&(struct weft_buf_limits){.worker_class = 1});
}

static void pass(int n)
{
    bufs[n]->data[0]++;
    weft_buf_free(bufs[n]);
    bufs[n] = NULL;
}

/* Every allocated buffer has come back, and the counts agree; a missing buffer is a leak. */
static void rest(void)
{
    for (int i = 0; i < 3 && !is_shut; i++) {
        weft_buf_free(bufs[i]);
    }
    for (unsigned class = 0; class < WEFT__BLOCK_SMALL; class ++) {
        const struct weft__buf_cache_counts *c = &cache.counts[class];
        X_ASSERT(c->hits + c->misses == c->put + cache.foreign[class].freed);
    }
    if (!is_shut) {
        weft__buf_cache_release(&cache);
    }
    for (unsigned class = 0; class < WEFT__BLOCK_SMALL; class ++) {
        const struct weft__buf_cache_counts *c = &cache.counts[class];
        const struct weft__buf_cache_remote *f = &cache.foreign[class];
        X_ASSERT(f->freed == f->drained + f->to_system);
        X_ASSERT(c->kept == 0);
    }
}

/* The owner allocates the buffer that another thread has just freed, and writes to it. */
static void use_one(void)
{
    weft_buf *buf = weft_buf_alloc(8, 0);
    X_ASSERT(buf);
    *weft_buf_put(buf, 1) = 1;
    weft_buf_free(buf);
}

static void freed_on_other_thread(int i)
{
    if (i == 0) {
        use_one();
        use_one();
    } else {
        pass(0);
        pass(1);
    }
}

static void freed_by_two(int i)
{
    if (i == 0) {
        use_one();
        weft__buf_cache_tick(&cache);
    } else {
        pass(i);
    }
}

static void worker_cache_closes(int i)
{
    if (i == 0) {
        weft__buf_cache_release(&cache);
        is_shut = true;
    } else {
        pass(i);
    }
}

/* As when a worker ends: its own buffers were freed before. */
static void setup_closing(void)
{
    setup();
    weft_buf_free(bufs[0]);
    bufs[0] = NULL;
}

/* A new worker takes over the cache of a worker that has ended. */
static void worker_cache_changes_owner(int i)
{
    if (i == 0) {
        weft__buf_cache_release(&cache);
        weft__remote_free_open(&cache.remote_free);
        use_one();
    } else {
        pass(0);
        pass(1);
    }
}

/* The last of the two views frees the storage, and the owner may write to it at once. */
static void two_views_end(int i)
{
    if (i == 0) {
        use_one();
        weft__buf_cache_tick(&cache);
        use_one();
    } else {
        X_ASSERT(views[i - 1]->data[0] == 0);
        weft_buf_free(views[i - 1]);
    }
}

/* bufs[0] was freed in setup: only the views keep the storage. */
static void setup_views_alone(void)
{
    setup_views();
    weft_buf_free(bufs[0]);
    bufs[0] = NULL;
}

/* A holder that finds its reference to be the only one writes. */
static void becomes_writable(int i)
{
    if (i == 0) {
        if (weft_buf_is_writable(bufs[1])) {
            bufs[1]->data[0] = 1;
        }
    } else {
        X_ASSERT(views[0]->data[0] == 0);
        weft_buf_free(views[0]);
    }
}

static void setup_one_view(void)
{
    setup();
    views[0] = weft_buf_share(bufs[1]);
}

static const struct x_client clients[] = {
    X_CLIENT("freed_on_other_thread", 2, setup, freed_on_other_thread, rest, .spurious = 1),
    X_CLIENT("worker_cache_changes_owner", 2, setup, worker_cache_changes_owner, rest,
             .spurious = 1),
    X_CLIENT("becomes_writable", 2, setup_one_view, becomes_writable, rest),
    X_CLIENT("remote_free_list_is_bounded", 2, setup_narrow, freed_on_other_thread, rest),
    X_CLIENT("worker_cache_closes", 3, setup_closing, worker_cache_closes, rest, .preemptions = 2,
             .stale = 1),
    X_CLIENT("freed_by_two", 3, setup, freed_by_two, rest, .preemptions = 2, .stale = 1),
    X_CLIENT("two_views_end", 3, setup_views_alone, two_views_end, rest, .preemptions = 2,
             .stale = 1),
};

X_MAIN(clients)
