/* Buffers that move between threads: allocated on one worker, shared, written while they have one
 * owner, freed on any worker or plain thread, while pools start and stop. Every byte is checked; in
 * the end nothing is left. */
#include <weft/buf.h>

#include "buf/bufs.h"
#include "pool/fixture.h"

#define SLOTS 64
#define HOPS 24000

/* Slots for passing buffers on: each exchange takes the buffer in the slot and stores another, or
 * none. */
static _Atomic(weft_buf *) slots[SLOTS];

static uint64_t live(void)
{
    struct weft_buf_stats s;
    weft_buf_stats(&s);
    return s.live;
}

/* Every byte of a buffer is its length modulo 251, so that a torn or recycled buffer is
 * detected. */
static weft_buf *make(uint64_t *rng)
{
    size_t len = dice(rng) % 8 == 0 ? 20000 + dice(rng) % 50000 : 1 + dice(rng) % 2000;
    weft_buf *buf = weft_buf_alloc(len, dice(rng) % 3 * 8);
    CHECK(buf);
    memset(weft_buf_put(buf, len), (int)(len % 251), len);
    return buf;
}

static void look(const weft_buf *buf)
{
    unsigned char first = buf->data[0];
    for (size_t i = 0; i < buf->len; i += 1 + i / 16) {
        CHECK_EQ(buf->data[i], first);
    }
    CHECK_EQ(buf->data[buf->len - 1], first);
}

static weft_buf *change(weft_buf *buf, uint64_t *rng)
{
    look(buf);
    switch (dice(rng) % 4) {
    case 0: {
        weft_buf *view = weft_buf_slice(buf, buf->len / 3, buf->len - buf->len / 3);
        weft_buf_free(buf);
        return view;
    }
    case 1:
        if (!weft_buf_is_writable(buf)) {
            weft_buf *copy = weft_buf_copy(buf->data, buf->len);
            weft_buf_free(buf);
            buf = copy;
        }
        memset(buf->data, (int)dice(rng), buf->len);
        return buf;
    case 2:
        weft_buf_free(buf);
        return NULL;
    default:
        return buf;
    }
}

static void wander(uint64_t seed, long hops)
{
    uint64_t rng = seed;
    for (long i = 0; i < hops; i++) {
        weft_buf *mine = dice(&rng) % 3 ? make(&rng) : NULL, *view = NULL;
        if (mine && dice(&rng) % 2) {
            view = weft_buf_share(mine);
            CHECK(view);
        }
        weft_buf *got =
            atomic_exchange_explicit(&slots[dice(&rng) % SLOTS], mine, memory_order_acq_rel);
        if (view) {
            look(view); /* while another thread may free, or even own, the first view */
            weft_buf_free(view);
        }
        if (got) {
            got = change(got, &rng);
            weft_buf *last =
                atomic_exchange_explicit(&slots[dice(&rng) % SLOTS], got, memory_order_acq_rel);
            weft_buf_free(last);
        }
        if (i % 16 == 0) {
            weft_yield();
        }
    }
}

static atomic_ulong seeds;

static void *wander_main(void *arg)
{
    wander(check_seed() + atomic_fetch_add(&seeds, 1), (long)(intptr_t)arg);
    return NULL;
}

static void wander_in_pool(unsigned workers, void *hops)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = workers});
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(weft_pool_spawn(pool, NULL, wander_main, hops, NULL), 0);
    }
    pool_close(pool);
}

static void *pools_come_and_go(void *hops)
{
    for (int i = 0; i < 4; i++) {
        wander_in_pool(1 + (unsigned)i % 2, hops);
        if (i % 2) {
            weft__buf_trim_pools();
        }
    }
    return NULL;
}

static void wander_everywhere(void)
{
    void *hops = (void *)(intptr_t)(check_scale(HOPS) / 8);
    pthread_t thread = thread_open(wander_main, hops);
    pthread_t pools = thread_open(pools_come_and_go, hops);
    wander_in_pool(3, hops);
    thread_close(thread);
    thread_close(pools);
    for (int i = 0; i < SLOTS; i++) {
        weft_buf_free(atomic_exchange(&slots[i], NULL));
    }
    CHECK_EQ(live(), 0);
    weft__buf_trim_pools();
    struct weft_buf_stats s;
    weft_buf_stats(&s);
    CHECK_EQ(s.kept, 0); /* all worker caches are closed, and the shared pool is trimmed */
    CHECK(s.foreign > 0);
}

TEST(buffers_moving_between_ending_pools_and_threads_keep_bytes)
{
    wander_everywhere();
}

TEST(tight_buffer_limits_lose_nothing)
{
    weft_buf_set_limits(&(struct weft_buf_limits){
        .worker_class = 4096, .worker = 16384, .shared_class = 100000, .shared = 200000});
    wander_everywhere();
    weft_buf_set_limits(NULL);
}

/* One buffer shared by many fibers of several pools, each with its own position. */
#define READERS 64

static weft_bufs outboxes[READERS];

static void *consume(void *arg)
{
    weft_bufs *box = arg;
    unsigned char next = 0;
    while (box->bytes) {
        size_t n = 1 + (box->bytes * 7) % 100;
        n = n < box->bytes ? n : box->bytes;
        for (size_t i = 0; i < n; i++) {
            unsigned char byte;
            CHECK_EQ(weft_bufs_copy(box, i, &byte, 1), 1);
            CHECK_EQ(byte, next);
            next = (unsigned char)((next + 1) % 250);
        }
        weft_bufs_consume(box, n);
        weft_yield();
    }
    return NULL;
}

static void fan_out(weft_pool *a, weft_pool *b)
{
    weft_bufs frame = {0};
    weft_fiber fibers[READERS];
    for (int i = 0; i < 4; i++) {
        weft_buf *buf = weft_buf_alloc(250, 0);
        unsigned char *bytes = weft_buf_put(buf, 250);
        for (int k = 0; k < 250; k++) {
            bytes[k] = (unsigned char)k;
        }
        weft_bufs_append(&frame, buf);
    }
    for (int i = 0; i < READERS; i++) {
        for (const weft_buf *buf = frame.first; buf; buf = weft_bufs_next(buf)) {
            weft_bufs_append(&outboxes[i], weft_buf_share(buf));
        }
        CHECK_EQ(weft_pool_spawn(i % 2 ? a : b, &fibers[i], consume, &outboxes[i], NULL), 0);
    }
    weft_bufs_free(&frame);
    for (int i = 0; i < READERS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
}

TEST(buffer_frame_fans_out_to_fibers_of_two_pools)
{
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "a"});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "b"});
    for (long i = check_scale(20); i > 0; i--) {
        fan_out(a, b);
        CHECK_EQ(live(), 0);
    }
    pool_close(a);
    pool_close(b);
}
