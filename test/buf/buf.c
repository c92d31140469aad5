/* labels: valgrind */
#include <weft/buf.h>

#include "buf/bufs.h"
#include "check.h"

static const char text[] = "the quick brown fox";

TEST(new_buffer_is_empty_with_requested_capacity)
{
    static const size_t sizes[] = {0,     1,     127,    128,     129,    4096,
                                   16384, 16385, 100000, 4 << 20, 5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        weft_buf *buf = weft_buf_alloc(sizes[i], 16);
        CHECK(buf);
        CHECK_EQ(buf->len, 0);
        CHECK(weft_buf_is_writable(buf));
        CHECK_EQ(weft__buf_headroom(buf), 16);
        CHECK(weft_buf_tailroom(buf) >= sizes[i]);
        memset(weft_buf_put(buf, sizes[i]), 7, sizes[i]);
        CHECK_EQ(buf->len, sizes[i]);
        weft_buf_free(buf);
    }
    weft_buf_free(NULL);
}

TEST(impossible_buffer_size_is_rejected)
{
    CHECK(!weft_buf_alloc(SIZE_MAX, 1));
    CHECK(!weft_buf_alloc(SIZE_MAX - 10, 0));
    CHECK(!weft_buf_alloc(SIZE_MAX / 2, 0));
}

TEST(header_is_prepended_and_trailer_appended_in_place)
{
    weft_buf *buf = weft_buf_alloc(10, 4);
    memcpy(weft_buf_put(buf, 4), "body", 4);
    memcpy(weft_buf_push(buf, 2), "<h", 2);
    memcpy(weft_buf_put(buf, 1), ">", 1);
    CHECK_EQ(weft__buf_headroom(buf), 2);
    CHECK_EQ(buf->len, 7);
    CHECK(memcmp(buf->data, "<hbody>", 7) == 0);
    weft_buf_pull(buf, 2);
    weft_buf_trim(buf, 1);
    CHECK_EQ(buf->len, 4);
    CHECK(memcmp(buf->data, "body", 4) == 0);
    CHECK_EQ(weft__buf_headroom(buf), 4);
    weft_buf_free(buf);
}

TEST(slices_share_storage_and_are_read_only_while_shared)
{
    weft_buf *buf = weft_buf_copy(text, sizeof text);
    weft_buf *quick = weft_buf_slice(buf, 4, 5);
    weft_buf *all = weft_buf_share(buf);
    CHECK(quick->data == buf->data + 4 && quick->len == 5);
    CHECK(all->data == buf->data && all->len == buf->len);
    CHECK(!weft_buf_is_writable(buf) && !weft_buf_is_writable(quick));
    CHECK_EQ(weft__buf_headroom(quick), 0);
    CHECK_EQ(weft_buf_tailroom(buf), 0);
    weft_buf_free(buf); /* the first view is freed first */
    weft_buf_free(all);
    CHECK(memcmp(quick->data, "quick", 5) == 0);
    CHECK(weft_buf_is_writable(quick)); /* the last view owns all of it */
    CHECK_EQ(weft__buf_headroom(quick), 4);
    CHECK(weft_buf_tailroom(quick) >= sizeof text - 9);
    weft_buf_free(quick);
}

TEST(copy_of_shared_bytes_is_writable)
{
    weft_buf *buf = weft_buf_copy(text, sizeof text);
    weft_buf *view = weft_buf_slice(buf, 4, 5);
    CHECK(!weft_buf_is_writable(view));
    weft_buf *mine = weft_buf_copy(view->data, view->len);
    CHECK(mine && mine->data != buf->data + 4);
    weft_buf_free(view);
    CHECK(weft_buf_is_writable(mine) && weft_buf_is_writable(buf));
    memset(mine->data, 'x', mine->len);
    CHECK(memcmp(buf->data, text, sizeof text) == 0);
    weft_buf_free(mine);
    weft_buf_free(buf);
}

static int released;

static void release(const void *memory, size_t len, void *arg)
{
    CHECK(memory == text && len == sizeof text && arg == &released);
    released++;
}

TEST(wrapped_memory_is_released_once_by_last_view)
{
    released = 0;
    weft_buf *buf = weft_buf_wrap(text, sizeof text, release, &released);
    weft_buf *view = weft_buf_slice(buf, 4, 5);
    CHECK(buf->data == (const unsigned char *)text);
    CHECK(!weft_buf_is_writable(buf));
    weft_buf_free(buf);
    CHECK_EQ(released, 0);
    CHECK(!weft_buf_is_writable(view)); /* the only view, but the memory is not Weft's */
    weft_buf *copy = weft_buf_copy(view->data, view->len);
    CHECK_EQ(released, 0);
    weft_buf_free(view);
    CHECK_EQ(released, 1);
    CHECK(weft_buf_is_writable(copy) && memcmp(copy->data, "quick", 5) == 0);
    weft_buf_free(copy);
    CHECK_EQ(released, 1);
    weft_buf_free(weft_buf_wrap(text, 3, NULL, NULL));
}

/* --- caller bugs --------------------------------------------------------------- */

static void push_too_far(void *arg)
{
    (void)arg;
    weft_buf_push(weft_buf_alloc(10, 4), 5);
}

static void put_too_far(void *arg)
{
    (void)arg;
    weft_buf_put(weft_buf_alloc(10, 0), 1000);
}

static void put_shared(void *arg)
{
    (void)arg;
    weft_buf *buf = weft_buf_alloc(10, 0);
    weft_buf_share(buf);
    weft_buf_put(buf, 1);
}

static void pull_too_far(void *arg)
{
    (void)arg;
    weft_buf_pull(weft_buf_copy(text, 3), 4);
}

static void slice_too_far(void *arg)
{
    (void)arg;
    weft_buf_slice(weft_buf_copy(text, 3), 2, 2);
}

static void check_dies(void (*fn)(void *), const char *message)
{
    char err[CHECK_ERR];
    CHECK(WIFSIGNALED(check_child(fn, NULL, err, sizeof err)));
    if (!strstr(err, message)) {
        printf("%s\n", err);
        CHECK(!"the message");
    }
}

TEST(access_beyond_buffer_bounds_aborts)
{
    check_dies(push_too_far, "weft_buf_push of 5 with a headroom of 4");
    check_dies(put_too_far, "weft_buf_put of 1000 with a tailroom of 128");
    check_dies(put_shared, "with a tailroom of 0: it is not writable");
    check_dies(pull_too_far, "weft_buf_pull of 4 from 3 bytes");
    check_dies(slice_too_far, "a slice of 2 bytes from 2 of a buffer of 3");
}
