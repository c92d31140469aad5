/* Dongting: DefaultPoolFactory, ByteBufferPool, RefBuffer, "release in finally". Buffers come from
 * the pools of the dispatcher's thread, by size classes, and return there from any thread that
 * frees them; so do frames created by weft_frame_create. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { FIBERS = 100, BYTES = 8192 };

struct session {
    weft_frame frame;
    weft_buf *buf;
};

static long freed;

static enum weft_step used(weft_frame *f, struct weft_got got)
{
    struct session *self = (struct session *)f;
    (void)got;
    return self->buf->len == 5 ? weft_frame_return(f, NULL) : weft_frame_throw(f, -EIO, "length");
}

static enum weft_step start(weft_frame *f, struct weft_got got)
{
    struct session *self = (struct session *)f;
    (void)got;
    self->buf = weft_buf_alloc(BYTES, 0);
    if (!self->buf) {
        return weft_frame_throw(f, -ENOMEM, "no buffer");
    }
    memcpy(weft_buf_put(self->buf, 5), "hello", 5);
    return weft_frame_yield(f, WEFT_THEN(used));
}

/* try { ... } finally { buffer.release(); } - on every exit path, including a cancel. */
static enum weft_step release(weft_frame *f)
{
    weft_buf_free(((struct session *)f)->buf);
    freed++;
    return weft_frame_done(f);
}

static const struct weft_frame_kind session_kind = {
    .name = "session", .start = start, .finally = release};

int main(void)
{
    weft_dispatcher *dispatcher;
    weft_group *group;
    struct weft_buf_stats stats;
    /* factory.setBufferSize, setMaxPoolSize: classes are fixed, and the cached memory is limited in
     * bytes. */
    weft_buf_set_limits(
        &(struct weft_buf_limits){.worker_class = FIBERS * BYTES, .worker = 2 * FIBERS * BYTES});
    if (weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.caller = true}) ||
        weft_group_create(dispatcher, &group, NULL)) {
        return 1;
    }
    for (int i = 0; i < FIBERS; i++) {
        struct session *s = (struct session *)weft_frame_create(&session_kind, sizeof *s);
        if (!s || weft_group_spawn_frame(group, NULL, &s->frame,
                                         &(struct weft_member_opts){.detached = true})) {
            return 1;
        }
    }
    weft_group_stop(group);
    int err = weft_dispatcher_run(dispatcher);
    weft_buf_stats(&stats);
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    printf("%ld buffers freed, %d live\n", freed, (int)stats.live);
    return err || freed != FIBERS || stats.live != 0;
}
