/* Frames from inside: what a step says to the engine, and what a wait is made of. The public
 * contract is <weft/frame.h>.
 *
 * A step tells what it does by the frame itself: the call it ends with writes `next` and `act`. So
 * the engine (frame/engine.c) finds out by the frame on top of the fiber whether the step did one
 * thing, and the one it returned. Until that is written `next` is the step that runs, for the trace
 * of an error.
 *
 *   phase     entered by                  an error leads to                     RETURN leads to
 *   --------  --------------------------  ------------------------------------  ----------------
 *   BODY      call                        HANDLING, if there is a handle        FINALLY
 *   HANDLING  an error, once              FINALLY                               FINALLY
 *   FINALLY   both, if there is a finally the caller, keeping what it replaces  the caller
 *
 * In FINALLY the fiber is shielded, and `kept` is what it will leave with; in HANDLING it is the
 * error that is handled. Bits: `pooled` goes back to the pool, by `size`; `failed`: what is kept is
 * an error; `tries`: the frame it called is not to throw; `caught`: what that threw is in `wait`,
 * until the step has returned.
 *
 * `act` has what the step did, and what is wrong with it: one comparison says that it did this and
 * nothing else.
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
    WEFT__ACT_GO,   /* `wait` is the value */
    WEFT__ACT_GOT,  /* the node in `wait` has the status and the value */
    WEFT__ACT_YIELD,
    WEFT__ACT_SLEEP,
    WEFT__ACT_PARK,
    WEFT__ACT_ARMED, /* of the one in `wait`, for an object of the fiber's own group; even */
    WEFT__ACT_OWN,   /* the same, and the fiber rests already: weft__task_rest. The next number */
    WEFT__ACT_WAIT,  /* of the `waits` in `wait` */
    WEFT__ACT_RETURN,
    WEFT__ACT_DONE,
    WEFT__ACT_THROW, /* `wait` is the error */
    WEFT__ACT_RETHROW,
    WEFT__ACT_KINDS = 0x0f,
    /* With it. Another's step may have set these, too, and that is its mistake: begin_step. */
    WEFT__ACT_OVER = 0x10,    /* the wait that the step began has ended before it was parked */
    WEFT__ACT_MISUSED = 0x20, /* the step did two things */
    WEFT__ACT_STRAY = 0x40,   /* the step waited with another frame */
    WEFT__ACT_JUDGED =
        0x80, /* it was unsound, and its fiber in a queue already: to be told there */
};

struct weft__await;

/* How the next round of a wait is to be armed, and until when. */
struct weft__round {
    unsigned how; /* enum weft__wait */
    int64_t deadline;
};

/* One static record for all waits of a kind. */
struct weft__await_kind {
    struct weft__wait_kind shown;
    /* Can it be had without waiting? Then *got is it, or *err is not 0 and is thrown. NULL:
     * never. */
    bool (*attempt)(struct weft__await *wait, struct weft_got *got, int *err);
    /* Links the node. False: now it could be had, and nothing was linked. */
    bool (*arm)(struct weft__await *wait);
    /* After the wait has ended, for whatever reason. */
    void (*finish)(struct weft__await *wait);
    /* It has ended the wait. Nonzero: is thrown. */
    int (*outcome)(const struct weft__await *wait, struct weft_got *got);
    /* Of the first of them: the deadline has passed, and *got says so. NULL: nothing to add. */
    void (*timed_out)(const struct weft__await *wait, unsigned n, struct weft_got *got);
    /* NULL: when the wait has ended it is over. Else, after finish, in the place of outcome: is
     * there another round? If not *got is it, or *err is not 0 and is thrown. A round that need not
     * be waited for ends by REASON_DONE. */
    bool (*again)(struct weft__await *wait, enum weft__reason reason, struct weft__round *next,
                  struct weft_got *got, int *err);
    /* After finish, with what has ended the wait: the step will never hear of it, so what it was
     * given goes back. Also of one that was not linked because it could be had, when a cancel or an
     * interrupt had come in between. NULL: nothing is left. */
    void (*abandon)(struct weft__await *wait, enum weft__reason reason);
    bool throws_timeout;
    /* It is left by its own end alone: where that came when a cancel or an interrupt had ended the
     * wait already, `again` says so. */
    bool firm;
};

struct __attribute__((may_alias)) weft__await {
    struct weft__node node;
    const struct weft__await_kind *kind;
    void *object;
    union {
        void *item;    /* of a channel, until it is armed: then the node has it */
        int64_t since; /* when it began to wait, by the worker's clock */
    };
    uint64_t on; /* for those who look from outside: the object, or a fiber */
};

_Static_assert(sizeof(struct weft__await) <= sizeof(struct weft_wait), "the public storage");

/* --- bodies (frame/engine.c) ------------------------------------------------------------- */

extern const struct weft__body_kind weft__frame_body;

enum weft__body_step weft__frame_run(struct weft__worker *w, struct weft__task *task);
const char *weft__frame_name(const struct weft__task *task);
struct weft__body_wait weft__frame_waits(const struct weft__task *task);
struct weft__ended weft__frame_ended(const struct weft__task *task);
int weft__frame_trace(const struct weft__task *task, void **out, int max);
struct weft__body_frame weft__frame_describe(void *const *pair);

/* What all kinds of frame fibers have in common, besides `step`. */
#define WEFT__FRAME_BODY_KIND                                                                      \
    .what = "frame fiber", .name = weft__frame_name, .waits = weft__frame_waits,                   \
    .ended = weft__frame_ended, .trace = weft__frame_trace, .describe = weft__frame_describe,      \
    .holds = true

/* Makes the frame the bottom of a new fiber (frame/spawn.c). */
int weft__frame_spawn(weft_pool *pool, weft_fiber *out, const struct weft__body_kind *kind,
                      weft_frame *frame, const struct weft__body_opts *opts);

/* --- waits (frame/await.c) ----------------------------------------------------------------- */

/* The worker and the fiber of the step that waits with this frame. NULL: it did something already,
 * or the frame is not the one whose step runs; the engine will say so. */
struct weft__worker *weft__await_begin(weft_frame *frame, struct weft__task **task);
/* The whole of a wait for n objects, none of which can be had at once if there are several. */
enum weft_step weft__await(struct weft__worker *w, struct weft__task *task, weft_frame *frame,
                           struct weft__await *waits, unsigned n, int64_t deadline,
                           const struct weft_point *then);
/* Its nodes are linked: parks. */
enum weft_step weft__await_park(struct weft__worker *w, struct weft__task *task, weft_frame *frame,
                                struct weft__await *waits, unsigned n, int64_t deadline,
                                const struct weft_point *then);
/* It has ended by this without having been parked, and nothing is linked: -EINTR or -ECANCELED. */
enum weft_step weft__await_throw(weft_frame *frame, enum weft__reason reason, int err,
                                 const struct weft__await *wait, unsigned others,
                                 const struct weft_point *then);
/* Further rounds of one that has `again`, the last of which has ended so. True: it waits. */
bool weft__await_again(struct weft__worker *w, struct weft__task *task, weft_frame *frame,
                       enum weft__reason reason, struct weft_got *got, int *err);

static inline struct weft__await *weft__await_of(struct weft_wait *wait)
{
    return (struct weft__await *)(void *)wait;
}

static inline uint64_t weft__await_address(const void *object)
{
    return (uint64_t)(uintptr_t)object;
}

/* What the step did, right or wrong. */
static inline enum weft__frame_act weft__frame_did(const weft_frame *frame)
{
    return (enum weft__frame_act)(frame->act & WEFT__ACT_KINDS);
}

/* Something is wrong with it. */
static inline void weft__frame_mark(weft_frame *frame, unsigned what)
{
    frame->act = (uint8_t)(frame->act | what);
}

/* Notes what the step does. False: it did something already, and the engine will say so. */
static inline bool weft__frame_does(weft_frame *frame, enum weft__frame_act act)
{
    if (__builtin_expect(frame->act != WEFT__ACT_NONE, 0)) {
        weft__frame_mark(frame, WEFT__ACT_MISUSED);
        return false;
    }
    frame->act = (uint8_t)act;
    return true;
}

/* Goes on at once, as if the wait had ended so. */
static inline enum weft_step weft__frame_got(weft_frame *frame, struct weft__await *wait,
                                             struct weft_got got, const struct weft_point *then)
{
    frame->act = WEFT__ACT_GOT;
    frame->next = then;
    frame->wait = wait;
    wait->node.status = got.status;
    wait->node.value = got.value;
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
/* Of a wait, which the message names; `ended`: a cancel or an interrupt has ended it. */
weft_error *weft__error_of_wait(const weft_frame *frame, int code, const struct weft__ended *wait,
                                bool ended);
struct weft__ended weft__error_what_ended(const weft_error *error);
/* To whoever is set by weft_frame_on_error. */
void weft__error_report(weft_fiber fiber, const char *name, const weft_error *error);

/* --- memory (frame/memory.c) --------------------------------------------------------------- */

/* The frame is done. */
void weft__frame_release(weft_frame *frame);
/* The same on this worker. */
static inline void weft__frame_release_here(struct weft__worker *w, weft_frame *frame)
{
    frame->fiber = 0;
    if (frame->pooled) {
        weft__small_put(&w->small, frame->size, frame);
    }
}
/* It was to be called, and will not be: goes back if it came from the pool and nobody uses it. */
void weft__frame_drop(weft_frame *frame);

#endif
