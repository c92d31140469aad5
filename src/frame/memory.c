/* Allocation of frames from a pool. */
#include <string.h>

#include "frame/frame.h"

void weft_frame_init(weft_frame *frame, const struct weft_frame_kind *kind)
{
    WEFT__REQUIRE(kind && kind->start, "a frame kind must have a start function");
    *frame = (weft_frame){.kind = kind};
}

__attribute__((noinline)) weft_frame *weft_frame_create(const struct weft_frame_kind *kind,
                                                        size_t bytes)
{
    WEFT__REQUIRE(bytes >= sizeof(weft_frame),
                  "weft_frame_create: %zu bytes is less than sizeof(weft_frame)", bytes);
    struct weft__worker *w = weft__worker_self_inline();
    unsigned class = weft__small_class(bytes);
    weft_frame *frame = weft__small_get(w ? &w->small : NULL, class, bytes);
    if (frame) {
        if (bytes > sizeof *frame) {
            memset(frame + 1, 0, bytes - sizeof *frame);
        }
        WEFT__REQUIRE(kind && kind->start, "a frame kind must have a start function");
        *frame = (weft_frame){.kind = kind, .pooled = true, .size = class & 63};
    }
    return frame;
}

void weft_frame_destroy(weft_frame *frame)
{
    if (frame) {
        WEFT__REQUIRE(frame->fiber == 0, "frame %s is freed while it is in use", frame->kind->name);
        weft__frame_release(frame);
    }
}

void weft__frame_release(weft_frame *frame)
{
    frame->fiber = 0;
    if (frame->pooled) {
        weft__small_put(weft__small_self(), frame->size, frame);
    }
}

void weft__frame_drop(weft_frame *frame)
{
    if (frame->pooled && frame->fiber == 0) {
        weft__frame_release(frame);
    }
}
