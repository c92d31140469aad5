/* Internals of frames: how a step reports its action to the engine, and how a wait is built. The
 * public contract is <weft/frame.h>.
 *
 * A step reports its action through the frame itself: the call that the step ends with writes
 * `next` and `act`. The engine (frame/engine.c) reads the fiber's top frame and checks that the
 * step performed exactly one action, and the action that it returned. Until the call writes `next`,
 * `next` is the step that runs, for the trace of an error.
 *
 *   phase     entered by                  an error leads to                     RETURN leads to
 *   --------  --------------------------  ------------------------------------  ----------------
 *   BODY      call                        HANDLING, if there is a handle        FINALLY
 *   HANDLING  an error, once              FINALLY                               FINALLY
 *   FINALLY   both, if there is a finally the caller, keeping what it replaces  the caller
 *
 * In FINALLY the fiber is shielded, and `pending_outcome` is the pending result or error; in
 * HANDLING `pending_outcome` is the error that is handled. Bits: `pooled`: the frame returns to the
 * pool, class `size`; `failed`: `pending_outcome` is an error; `is_try`: an error of the called
 * frame is caught; `caught`: the caught error is in `wait` until the step has returned.
 *
 * `act` holds the action of the step and its misuse bits, so that one comparison checks that the
 * step performed this action and nothing else.
 */
#ifndef WEFT_FRAME_FRAME_H
#define WEFT_FRAME_FRAME_H

#include <weft/frame.h>

#include "sched/stackless.h"

enum weft__frame_phase {
    WEFT__FRAME_BODY,
    WEFT__FRAME_HANDLING,
    WEFT__FRAME_FINALLY,
};

/* The action of a step. */
enum weft__frame_act {
    WEFT__ACT_NONE,
    WEFT__ACT_CALL,      /* `wait` is the frame */
    WEFT__ACT_TRY,       /* `wait` is the frame */
    WEFT__ACT_CONTINUE,  /* `wait` is the value */
    WEFT__ACT_COMPLETED, /* the node in `wait` has the status and the value */
    WEFT__ACT_YIELD,
    WEFT__ACT_SLEEP,
    WEFT__ACT_PARK,
    WEFT__ACT_ARMED,   /* waits on the object in `wait`, which is of the fiber's own group; an even
                        number */
    WEFT__ACT_SETTLED, /* as ARMED, and the wait is settled already (weft__task_arm_settled); the
                        next number */
    WEFT__ACT_WAIT,    /* waits on the `waits` objects in `wait` */
    WEFT__ACT_RETURN,
    WEFT__ACT_DONE,
    WEFT__ACT_THROW, /* `wait` is the error */
    WEFT__ACT_RETHROW,
    WEFT__ACT_KINDS = 0x0f,
    /* Flags added to the action. The step of another fiber may set them too, by its own mistake:
     * begin_step clears them. */
    WEFT__ACT_ENDED_EARLY = 0x10, /* the wait that the step began has ended before the fiber was
                                 parked */
    WEFT__ACT_MISUSED = 0x20,     /* the step performed two actions */
    WEFT__ACT_WRONG_FRAME = 0x40, /* the step waited with another frame */
    /* The step misused the API, and its fiber is in a queue already: the misuse is reported when
     * the fiber runs. */
    WEFT__ACT_MISUSE_PENDING = 0x80,
};

struct weft__await;

/* How to arm the next round of a wait, and its deadline. */
struct weft__await_round {
    unsigned how; /* enum weft__wait */
    int64_t deadline;
};

/* One static record for all waits of a kind. */
struct weft__await_kind {
    struct weft__wait_kind wait_kind;
    /* Try to complete without waiting. True: *got is the result, or *err is not 0 and is thrown.
     * NULL: the wait never completes at once. */
    bool (*attempt)(struct weft__await *wait, struct weft_got *got, int *err);
    /* Link the node. False: the wait can complete now, and nothing was linked. */
    bool (*arm)(struct weft__await *wait);
    /* Called after the wait has ended, for any reason. */
    void (*finish)(struct weft__await *wait);
    /* The object of this node ended the wait: fill in *got. A nonzero return value is thrown. */
    int (*outcome)(const struct weft__await *wait, struct weft_got *got);
    /* The deadline has passed, and *got says so; called for the first node. NULL: nothing to
     * add. */
    void (*timed_out)(const struct weft__await *wait, unsigned n, struct weft_got *got);
    /* NULL: the wait has one round. Otherwise called after finish, instead of outcome: is there
     * another round? If not, *got is the result, or *err is not 0 and is thrown. A round that need
     * not wait ends with REASON_DONE. */
    bool (*again)(struct weft__await *wait, enum weft__reason reason,
                  struct weft__await_round *next, struct weft_got *got, int *err);
    /* Called after finish, with the reason that ended the wait, if the step will never get the
     * result: release what the wait acquired. Also called for a wait that was not linked because it
     * could complete, if a cancel or an interrupt had arrived in between. NULL: nothing to
     * release. */
    void (*abandon)(struct weft__await *wait, enum weft__reason reason);
    bool throws_timeout;
    /* The wait ends only when its object ends it: if that happened after a cancel or an interrupt
     * had ended the wait, `again` reports it. */
    bool uninterruptible;
};

struct __attribute__((may_alias)) weft__await {
    struct weft__node node;
    const struct weft__await_kind *kind;
    void *object;
    union {
        void *item;    /* of a channel, until the node is armed, which then holds it */
        int64_t since; /* when the wait began, by the worker's clock */
    };
    uint64_t on; /* for inspection: the object, or a fiber */
};

_Static_assert(sizeof(struct weft__await) <= sizeof(struct weft_wait), "the public storage");

/* --- stackless tasks (frame/engine.c) ---------------------------------------------------- */

extern const struct weft__stackless_kind weft__frame_stackless;

enum weft__stackless_step weft__frame_run(struct weft__worker *w, struct weft__task *task);
const char *weft__frame_name(const struct weft__task *task);
struct weft__wait_info weft__frame_wait_info(const struct weft__task *task);
struct weft__ended weft__frame_ended_wait(const struct weft__task *task);
int weft__frame_trace(const struct weft__task *task, void **out, int max);
struct weft__stackless_frame weft__frame_describe(void *const *pair);

/* The members that all kinds of frame fibers share, except `step`. */
#define WEFT__FRAME_STACKLESS_KIND                                                                 \
    .what = "frame fiber", .name = weft__frame_name, .waits = weft__frame_wait_info,               \
    .ended = weft__frame_ended_wait, .trace = weft__frame_trace, .describe = weft__frame_describe, \
    .holds = true

/* Spawn a fiber with this bottom frame (frame/spawn.c). */
int weft__frame_spawn(weft_pool *pool, weft_fiber *out, const struct weft__stackless_kind *kind,
                      weft_frame *frame, const struct weft__stackless_opts *opts);

/* --- waits (frame/await.c) ----------------------------------------------------------------- */

/* Return the worker and the fiber of the step that waits with this frame. NULL: the step has
 * performed an action already, or the frame is not the one whose step runs; the engine reports the
 * misuse. */
struct weft__worker *weft__await_begin(weft_frame *frame, struct weft__task **task);
/* Perform a complete wait for n objects. If n > 1, no object can complete at once. */
enum weft_step weft__await(struct weft__worker *w, struct weft__task *task, weft_frame *frame,
                           struct weft__await *waits, unsigned n, int64_t deadline,
                           const struct weft_resume_point *then);
/* Park; the nodes are linked. */
enum weft_step weft__await_park(struct weft__worker *w, struct weft__task *task, weft_frame *frame,
                                struct weft__await *waits, unsigned n, int64_t deadline,
                                const struct weft_resume_point *then);
/* Throw -EINTR or -ECANCELED: the wait ended for this reason before the fiber was parked, and
 * nothing is linked. */
enum weft_step weft__await_throw(weft_frame *frame, enum weft__reason reason, int err,
                                 const struct weft__await *wait, unsigned others,
                                 const struct weft_resume_point *then);
/* Run further rounds of a wait that has `again`, after a round ended for this reason. True: the
 * fiber waits. */
bool weft__await_next_round(struct weft__worker *w, struct weft__task *task, weft_frame *frame,
                            enum weft__reason reason, struct weft_got *got, int *err);

static inline struct weft__await *weft__await_of(struct weft_wait *wait)
{
    return (struct weft__await *)(void *)wait;
}

static inline uint64_t weft__await_address(const void *object)
{
    return (uint64_t)(uintptr_t)object;
}

/* Return the action without its flags. */
static inline enum weft__frame_act weft__frame_get_act(const weft_frame *frame)
{
    return (enum weft__frame_act)(frame->act & WEFT__ACT_KINDS);
}

/* Add a flag to the action. */
static inline void weft__frame_add_flag(weft_frame *frame, unsigned what)
{
    frame->act = (uint8_t)(frame->act | what);
}

/* Record the action of the step. False: the step has performed an action already; the engine
 * reports the misuse. */
static inline bool weft__frame_set_act(weft_frame *frame, enum weft__frame_act act)
{
    if (__builtin_expect(frame->act != WEFT__ACT_NONE, 0)) {
        weft__frame_add_flag(frame, WEFT__ACT_MISUSED);
        return false;
    }
    frame->act = (uint8_t)act;
    return true;
}

/* Continue at once, as if the wait had ended with this result. */
static inline enum weft_step weft__frame_continue_with(weft_frame *frame, struct weft__await *wait,
                                                       struct weft_got got,
                                                       const struct weft_resume_point *then)
{
    frame->act = WEFT__ACT_COMPLETED;
    frame->next = then;
    frame->wait = wait;
    wait->node.status = got.status;
    wait->node.value = got.value;
    return WEFT_CALL;
}

/* --- errors (frame/error.c) ------------------------------------------------------------- */

/* Never returns NULL: without memory the error is an -ENOMEM that has no frames. */
weft_error *weft__error_make(const weft_frame *frame, int code, const char *format, va_list args);
weft_error *weft__error_new(const weft_frame *frame, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void weft__error_free(weft_error *error);
/* `earlier` becomes the error that `error` suppressed. */
void weft__error_suppress(weft_error *error, weft_error *earlier);
void weft__error_set_cause(weft_error *error, const weft_error *cause);
/* Make the error of a wait, named in the message. `ended`: a cancel or an interrupt ended the
 * wait. */
weft_error *weft__error_from_wait(const weft_frame *frame, int code, const struct weft__ended *wait,
                                  bool ended);
struct weft__ended weft__error_ended_wait(const weft_error *error);
/* Call the function that weft_frame_on_error has set. */
void weft__error_report(weft_fiber fiber, const char *name, const weft_error *error);

/* --- memory (frame/memory.c) --------------------------------------------------------------- */

/* Return a frame that is done to its pool. */
void weft__frame_release(weft_frame *frame);
/* The same, on this worker. */
static inline void weft__frame_release_here(struct weft__worker *w, weft_frame *frame)
{
    frame->fiber = 0;
    if (frame->pooled) {
        weft__small_put(&w->small, frame->size, frame);
    }
}
/* Release a frame that was to be called and will not be: if it came from the pool and is not in
 * use. */
void weft__frame_drop(weft_frame *frame);

#endif
