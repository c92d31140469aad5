/* labels: valgrind */
#include <errno.h>

#include <weft/buf.h>

#include "buf/bufs.h"
#include "check.h"

static void append(weft_bufs *chain, const char *text)
{
    weft_bufs_append(chain, weft_buf_copy(text, strlen(text)));
}

/* Checks the bytes, and the chain's counters. */
static void check_text(const weft_bufs *chain, const char *text)
{
    char all[256] = "";
    size_t bytes = 0, count = 0;
    for (const weft_buf *buf = chain->first; buf; buf = weft_bufs_next(buf)) {
        memcpy(all + bytes, buf->data, buf->len);
        bytes += buf->len;
        count++;
    }
    CHECK_STR(all, text);
    CHECK_EQ(chain->bytes, bytes);
    CHECK_EQ(chain->count, count);
    CHECK(!chain->first == !chain->weft_last);
    CHECK(!chain->weft_last || !weft_bufs_next(chain->weft_last));
}

static weft_bufs abc(void)
{
    weft_bufs chain = {0};
    append(&chain, "alpha ");
    append(&chain, "beta ");
    append(&chain, "gamma");
    check_text(&chain, "alpha beta gamma");
    return chain;
}

TEST(buffers_are_added_at_both_ends_and_taken_from_front)
{
    weft_bufs chain = abc(), more = {0};
    weft_bufs_prepend(&chain, weft_buf_copy("> ", 2));
    append(&more, "!");
    weft_bufs_join(&chain, &more);
    check_text(&chain, "> alpha beta gamma!");
    check_text(&more, "");
    weft_bufs_join(&chain, &more);
    weft_buf *first = weft_bufs_shift(&chain);
    CHECK_EQ(first->len, 2);
    weft_buf_free(first);
    check_text(&chain, "alpha beta gamma!");
    weft_bufs_prepend(&more, weft_bufs_shift(&chain));
    check_text(&more, "alpha ");
    weft_bufs_free(&chain);
    weft_bufs_free(&more);
    CHECK(!weft_bufs_shift(&chain));
    check_text(&chain, "");
}

TEST(chain_split_shares_straddling_buffer_without_copy)
{
    for (size_t at = 0; at <= 16; at++) {
        static const char whole[] = "alpha beta gamma";
        weft_bufs chain = abc(), tail = {0};
        char head[20] = "";
        const unsigned char *second = weft_bufs_next(chain.first)->data;
        CHECK_EQ(weft__bufs_split(&chain, at, &tail), 0);
        memcpy(head, whole, at);
        check_text(&chain, head);
        check_text(&tail, whole + at);
        if (at == 8) {
            CHECK(tail.first->data == second + 2);
        }
        weft_bufs_join(&chain, &tail);
        check_text(&chain, whole);
        weft_bufs_free(&chain);
    }
}

TEST(consume_frees_empty_buffers)
{
    weft_bufs chain = abc();
    weft_bufs_consume(&chain, 7);
    check_text(&chain, "eta gamma");
    CHECK_EQ(chain.count, 2);
    weft_bufs_consume(&chain, 4);
    check_text(&chain, "gamma");
    CHECK_EQ(chain.count, 1);
    weft_bufs_consume(&chain, 5);
    check_text(&chain, "");
    CHECK_EQ(chain.count, 0);
    weft_bufs_consume(&chain, 0);
}

TEST(linearise_moves_first_bytes_into_one_buffer)
{
    weft_bufs chain = abc();
    const weft_buf *first = chain.first;
    CHECK_EQ(weft_bufs_linearise(&chain, 6), 0);
    CHECK(chain.first == first); /* the same buffer */
    CHECK_EQ(weft_bufs_linearise(&chain, 8), 0);
    CHECK_EQ(chain.first->len, 8);
    check_text(&chain, "alpha beta gamma");
    CHECK_EQ(weft_bufs_linearise(&chain, 16), 0);
    CHECK_EQ(chain.count, 1);
    check_text(&chain, "alpha beta gamma");
    weft_bufs_prepend(&chain, weft_buf_alloc(1, 0));
    CHECK_EQ(weft_bufs_linearise(&chain, 2), 0);
    CHECK_EQ(chain.count, 1);
    weft_bufs_free(&chain);
    CHECK_EQ(weft_bufs_linearise(&chain, 0), 0);
}

TEST(bytes_are_copied_out_from_any_offset)
{
    weft_bufs chain = abc();
    char out[32] = "";
    CHECK_EQ(weft_bufs_copy(&chain, 4, out, 8), 8);
    CHECK_STR(out, "a beta g");
    CHECK_EQ(weft_bufs_copy(&chain, 12, out, 32), 4);
    CHECK_EQ(weft_bufs_copy(&chain, 16, out, 1), 0);
    CHECK_EQ(weft_bufs_copy(&chain, 100, out, 1), 0);
    weft_bufs_free(&chain);
}

TEST(chain_is_written_by_one_writev)
{
    int ends[2];
    char out[32] = "";
    struct iovec iov[8];
    weft_bufs chain = abc();
    weft_bufs_prepend(&chain, weft_buf_alloc(10, 0)); /* empty: not in the vector */
    CHECK_EQ(weft_bufs_iovec(&chain, iov, 2), 2);
    int n = weft_bufs_iovec(&chain, iov, 8);
    CHECK_EQ(n, 3);
    CHECK(pipe(ends) == 0);
    CHECK_EQ(writev(ends[1], iov, n), 16);
    CHECK_EQ(read(ends[0], out, sizeof out), 16);
    CHECK_STR(out, "alpha beta gamma");
    close(ends[0]);
    close(ends[1]);
    weft_bufs_free(&chain);
}

TEST(chain_is_read_into_by_one_readv)
{
    int ends[2];
    struct iovec iov[8];
    weft_bufs chain = {0};
    char text[301] = "";
    memset(text, 'x', 300);
    CHECK_EQ(weft__bufs_tailroom_iovec(&chain, iov, 8), 0);
    append(&chain, "head:");
    for (int i = 0; i < 2; i++) {
        weft_bufs_append(&chain, weft_buf_alloc(100, 28)); /* 128 less the headroom */
    }
    CHECK_EQ(weft__bufs_tailroom_iovec(&chain, iov, 2), 2);
    int n = weft__bufs_tailroom_iovec(&chain, iov, 8);
    CHECK_EQ(n, 3);
    CHECK_EQ(iov[0].iov_len, 123);
    CHECK_EQ(iov[2].iov_len, 100);
    CHECK(pipe(ends) == 0);
    CHECK_EQ(write(ends[1], text, 200), 200);
    CHECK_EQ(readv(ends[0], iov, n), 200);
    weft__bufs_commit(&chain, 200);
    CHECK_EQ(chain.bytes, 205);
    CHECK_EQ(weft__bufs_tailroom_iovec(&chain, iov, 8), 2); /* 23 in the second, and the third */
    CHECK_EQ(iov[0].iov_len, 23);
    weft__bufs_commit(&chain, 0);
    CHECK_EQ(weft_bufs_copy(&chain, 0, text, 15), 15);
    CHECK(memcmp(text, "head:xxxxxxxxxx", 15) == 0);
    weft_bufs_free(&chain);
    append(&chain, "head:");
    weft_buf *view = weft_buf_share(chain.first);
    CHECK_EQ(weft__bufs_tailroom_iovec(&chain, iov, 8), 0); /* not writable */
    weft_buf_free(view);
    close(ends[0]);
    close(ends[1]);
    weft_bufs_free(&chain);
}

static void fill_too_much(void *arg)
{
    weft_bufs chain = {0};
    append(&chain, "text");
    weft__bufs_commit(&chain, 125);
    (void)arg;
}

TEST(fill_beyond_chain_capacity_aborts)
{
    char err[CHECK_ERR];
    CHECK(WIFSIGNALED(check_child(fill_too_much, NULL, err, sizeof err)));
    CHECK(strstr(err, "weft__bufs_commit of 1 bytes more than there is room for"));
}

static void share(weft_bufs *chain, const weft_bufs *from)
{
    for (const weft_buf *buf = from->first; buf; buf = weft_bufs_next(buf)) {
        weft_bufs_append(chain, weft_buf_share(buf));
    }
}

TEST(frame_fans_out_to_many_chains_with_own_positions)
{
    enum { MANY = 100 };
    static weft_bufs to[MANY];
    struct weft_buf_stats before, after;
    weft_bufs frame = abc();
    weft_buf_stats(&before);
    for (size_t i = 0; i < MANY; i++) {
        share(&to[i], &frame);
        weft_bufs_consume(&to[i], i % 17);
    }
    weft_buf_stats(&after);
    CHECK_EQ(after.live,
             before.live + after.classes[0].live - before.classes[0].live); /* headers */
    weft_bufs_free(&frame);
    for (size_t i = 0; i < MANY; i++) {
        check_text(&to[i], &"alpha beta gamma"[i % 17]);
        weft_bufs_free(&to[i]);
    }
    weft_buf_stats(&after);
    CHECK_EQ(after.live, before.live - 3);
}

/* --- against a plain array ---------------------------------------------------------- */

#define MOST 4096
static unsigned char model[MOST];
static size_t model_bytes;
static uint64_t rng;

static size_t dice(size_t sides)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(rng >> 33) % sides;
}

static weft_buf *random_buf(unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (unsigned char)dice(256);
    }
    return weft_buf_copy(bytes, len);
}

static void random_step(weft_bufs *chain)
{
    size_t len = dice(60), n = dice(model_bytes + 1);
    unsigned char bytes[60];
    weft_bufs other = {0};
    switch (dice(6)) {
    case 0:
    case 1:
        if (model_bytes + len <= MOST) {
            weft_bufs_append(chain, random_buf(model + model_bytes, len));
            model_bytes += len;
        }
        break;
    case 2:
        if (model_bytes + len <= MOST) {
            weft_bufs_prepend(chain, random_buf(bytes, len));
            memmove(model + len, model, model_bytes);
            memcpy(model, bytes, len);
            model_bytes += len;
        }
        break;
    case 3:
        n %= 100;
        n = n < model_bytes ? n : model_bytes;
        weft_bufs_consume(chain, n);
        memmove(model, model + n, model_bytes - n);
        model_bytes -= n;
        break;
    case 4:
        CHECK_EQ(weft__bufs_split(chain, n, &other), 0);
        CHECK_EQ(chain->bytes, n);
        if (dice(2)) {
            share(chain, &other);
            weft_bufs_free(&other);
        } else {
            weft_bufs_join(chain, &other);
        }
        break;
    case 5:
        CHECK_EQ(weft_bufs_linearise(chain, n), 0);
        CHECK(n == 0 || chain->first->len >= n);
        break;
    }
}

TEST(chain_random_operations_match_plain_array)
{
    static unsigned char out[MOST];
    struct weft_buf_stats before, after;
    weft_bufs chain = {0};
    rng = check_seed();
    model_bytes = 0;
    weft_buf_stats(&before);
    for (long i = check_scale(20000); i > 0; i--) {
        random_step(&chain);
        CHECK_EQ(chain.bytes, model_bytes);
        CHECK_EQ(weft_bufs_copy(&chain, 0, out, MOST), model_bytes);
        CHECK(memcmp(out, model, model_bytes) == 0);
    }
    weft_bufs_free(&chain);
    weft_buf_stats(&after);
    CHECK_EQ(after.live, before.live);
}
