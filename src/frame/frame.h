/* Frames from inside: what a step says to the engine, and what a wait is made of. The public contract is <weft/frame.h>.
 *
 * A step tells what it does by the frame itself: the call it ends with writes `next` and `act`. So the engine
 * (frame/engine.c) finds out by the frame on top of the fiber whether the step did one thing, and the one it
 * returned. Until that is written `next` is the step that runs, for the trace of an error.
 *
 *   phase     entered by                  an error leads to                     RETURN leads to
 *   --------  --------------------------  ------------------------------------  ----------------
 *   BODY      call                        HANDLING, if there is a handle        FINALLY
 *   HANDLING  an error, once              FINALLY                               FINALLY
 *   FINALLY   both, if there is a finally the caller, keeping what it replaces  the caller
 *
 * In FINALLY the fiber is shielded, and `kept` is what it will leave with; in HANDLING it is the error that is handled.
 * Bits: `pooled` goes back to the pool, by `size`; `failed`: what is kept is an error; `misused`: a step did two things;
 * `tries`: the frame it called is not to throw; `caught`: what that threw is in `wait`, until the step has returned; `over`:
 * the wait that the step began has ended before it was parked.
 */
#ifndef WEFT_FRAME_FRAME_H
#define WEFT_FRAME_FRAME_H

#include <weft/frame.h>

#include "sched/body.h"

enum weft__frame_phase {
    WEFT__FRAME_BODY,
    WEFT__FRAME_HANDLING,
    WEFT__FRAME_FINALLY,
};

/* What a step did. */
enum weft__frame_act {
    WEFT__ACT_NONE,
    WEFT__ACT_CALL, /* `wait` is the frame */
    WEFT__ACT_TRY,  /* the same */
    WEFT__ACT_GO,   /* `wait` is the value, -`waits` the status */
    WEFT__ACT_YIELD,
    WEFT__ACT_SLEEP,
    WEFT__ACT_PARK,
    WEFT__ACT_WAIT, /* of the `waits` in `wait` */
    WEFT__ACT_RETURN,
    WEFT__ACT_DONE,
    WEFT__ACT_THROW, /* `wait` is the error */
    WEFT__ACT_RETHROW,
};

struct weft__await;

/* One static record for all waits of a kind. */
struct weft__await_kind {
    struct weft__wait_kind shown;
    /* Can it be had without waiting? Then *got is it, or *err is not 0 and is thrown. NULL: never. */
    bool (*attempt)(struct weft__await *wait, struct weft_got *got, int *err);
    /* Links the node. False: now it could be had, and nothing was linked. */
    bool (*arm)(struct weft__await *wait);
    /* After the wait has ended, for whatever reason. */
    void (*finish)(struct weft__await *wait);
    /* It has ended the wait. Nonzero: is thrown. */
    int (*outcome)(const struct weft__await *wait, struct weft_got *got);
    bool throws_timeout;
};

struct __attribute__((may_alias)) weft__await {
    struct weft__node node;
    const struct weft__await_kind *kind;
    void *object;
    void *item;  /* of a channel */
    uint64_t on; /* for those who look from outside: the object, or a fiber */
};

_Static_assert(sizeof(struct weft__await) <= sizeof(struct weft_wait), "the public storage");

extern const struct weft__body_kind weft__frame_body;

/* Notes what the step does. False: it did something already, and the engine will say so. */
static inline bool weft__frame_does(weft_frame *frame, enum weft__frame_act act)
{
    if (__builtin_expect(frame->act != WEFT__ACT_NONE, 0)) {
        frame->misused = true;
        return false;
    }
    frame->act = (uint8_t)act;
    return true;
}

/* Goes on at once as if a wait had ended so. */
static inline enum weft_step weft__frame_go(weft_frame *frame, int status, void *value,
                                            const struct weft_point *then)
{
    if (weft__frame_does(frame, WEFT__ACT_GO)) {
        frame->next = then;
        frame->wait = value;
        frame->waits = (uint8_t)-status;
    }
    return WEFT_CALL;
}

/* --- errors (frame/error.c) ------------------------------------------------------------- */

/* Never NULL: without memory it is an -ENOMEM that has no frames. */
weft_error *weft__error_make(const weft_frame *frame, int code, const char *format, va_list args);
weft_error *weft__error_new(const weft_frame *frame, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void weft__error_free(weft_error *error);
/* `earlier` becomes its suppressed one. */
void weft__error_suppress(weft_error *error, weft_error *earlier);
void weft__error_because(weft_error *error, const weft_error *cause);
/* To whoever is set by weft_frame_on_error. */
void weft__error_report(weft_fiber fiber, const char *name, const weft_error *error);

/* --- memory (frame/memory.c) --------------------------------------------------------------- */

/* The frame is done. */
void weft__frame_release(weft_frame *frame);

#endif
