/* Allocation failures: in each run one request fails, or all requests from some point on. Each call
 * returns NULL or -ENOMEM, nothing is half-made, nothing is lost. */
#include <errno.h>

#include <weft/buf.h>

#include "base/alloc.h"
#include "buf/bufs.h"
#include "check.h"

static int refused, released;

static void release(const void *memory, size_t len, void *arg)
{
    (void)memory, (void)len, (void)arg;
    released++;
}

/* NULL counts as a failure. */
static weft_buf *got(weft_buf *buf)
{
    refused += buf == NULL;
    return buf;
}

static void check_bytes(const weft_bufs *chain, size_t bytes)
{
    size_t sum = 0, count = 0;
    for (const weft_buf *buf = chain->first; buf; buf = weft_bufs_next(buf)) {
        sum += buf->len;
        count++;
    }
    CHECK_EQ(sum, bytes);
    CHECK_EQ(chain->bytes, bytes);
    CHECK_EQ(chain->count, count);
}

static bool made(int err)
{
    CHECK(err == 0 || err == -ENOMEM);
    refused += err != 0;
    return err == 0;
}

/* A chain of three, with one call of each kind that allocates; a failed call leaves the chain
 * unchanged. */
static void use_chain(void)
{
    weft_bufs chain = {0}, tail = {0};
    for (int i = 0; i < 3; i++) {
        weft_buf *buf = got(weft_buf_copy("0123456789", 10));
        if (buf) {
            weft_bufs_append(&chain, buf);
        }
    }
    size_t bytes = chain.bytes;
    if (bytes >= 20) {
        size_t left = made(weft__bufs_split(&chain, 15, &tail)) ? 15 : bytes;
        check_bytes(&chain, left);
        check_bytes(&tail, bytes - left);
        weft_bufs_join(&chain, &tail);
        check_bytes(&chain, bytes);
        size_t before = chain.first->len;
        size_t first = made(weft_bufs_linearise(&chain, 20)) ? 20 : before;
        CHECK_EQ(chain.first->len, first);
        check_bytes(&chain, bytes);
    }
    weft_bufs_free(&chain);
}

static void use_everything(void)
{
    weft_buf *large = got(weft_buf_alloc(100000, 0)), *larger = got(weft_buf_alloc(5 << 20, 0));
    weft_buf_free(larger);
    weft_buf_free(large);
    released = 0;
    weft_buf *wrapped = got(weft_buf_wrap("static", 6, release, NULL));
    if (wrapped) {
        weft_buf *view = got(weft_buf_share(wrapped));
        weft_buf_free(wrapped);
        CHECK_EQ(released, view == NULL);
        weft_buf_free(view);
    }
    CHECK_EQ(released, wrapped != NULL);
    use_chain();
}

static void sweep(bool sticky)
{
    struct weft_buf_stats before, after;
    weft_buf_stats(&before);
    for (long k = 1;; k++) {
        weft__buf_trim_pools(); /* empties the caches: everything has to be allocated */
        refused = 0;
        weft__alloc_fail_after(k, sticky);
        use_everything();
        bool reached = weft__alloc_requests() >= k;
        weft__alloc_fail_after(0, false);
        weft_buf_stats(&after);
        CHECK_EQ(after.live, before.live);
        CHECK_EQ(reached, refused > 0);
        CHECK(!reached || after.misses > before.misses || sticky);
        if (!reached) {
            CHECK(k > 8);
            break;
        }
    }
}

TEST(buffers_survive_failure_of_any_single_allocation)
{
    sweep(false);
}

TEST(buffers_survive_failure_of_all_allocations_from_any_point)
{
    sweep(true);
}
