/* Frame fibers: fibers without a stack. One that is parked or sleeps costs less than 200 bytes; one
 * that waits on an object has the record of the wait in its frame, another 80. Never more than its
 * control block and its frames.
 *
 * A frame is a struct of yours that begins with a weft_frame: the locals of one call, and where it
 * goes on. It runs in steps, which are plain functions. A step cannot wait; it says what is to be
 * waited for, and which function comes next, and returns:
 *
 *     struct greet { weft_frame frame; int left; };
 *
 *     static enum weft_step greet(weft_frame *f, struct weft_got got)
 *     {
 *         struct greet *self = (struct greet *)f;
 *         if (self->left-- == 0) {
 *             return weft_frame_return(f, NULL);
 *         }
 *         puts("hello");
 *         return weft_frame_sleep(f, weft_after(WEFT_SECONDS(1)), WEFT_THEN(greet));
 *     }
 *     static const struct weft_frame_kind greeting = {.name = "greeting", .start = greet};
 *
 *     struct greet g = {.left = 3};
 *     weft_frame_init(&g.frame, &greeting);
 *     weft_group_spawn_frame(group, NULL, &g.frame, NULL);   // or weft_pool_spawn_frame(pool, ...)
 *
 * Every step ends with `return weft_frame_...(f, ...)`: it calls another frame (CALL), or waits
 * (SUSPEND), or is done (RETURN). What it returns and what it did are compared, and a step that
 * does neither, or two of them, is a fatal error with the frame's name.
 *
 * Errors. weft_frame_throw ends the frame by an error; so does a cancel or an interrupt that ends a
 * wait, and a future that has failed. The frame's `handle` is called with it, once; without one, or
 * if that throws again, the error goes to the caller of the frame. Then, on every way out,
 * `finally` is called exactly once. Both are steps: they may call and wait. What finally waits for
 * is not ended by a cancel or an interrupt. An error of finally replaces the one that was on its
 * way, which it keeps as `suppressed`. At the bottom of a fiber an error is reported
 * (weft_frame_on_error), and is what a join of the fiber answers.
 *
 * Misuse. A step that did two things, or none, or said something else than what it did; a frame
 * that is called while it is in use, by this fiber or another; a wait with a frame that is not the
 * one whose step runs; weft_frame_rethrow where there is no error: in a group each is an error like
 * others, with the code -ENOTRECOVERABLE and the frame's name, and besides ends the group
 * (weft_group_fail). In a pool it stops the program with a message.
 *
 * Frame fibers run in a group of a dispatcher or in a pool; they are fibers: weft_join,
 * weft_cancel, weft_interrupt, weft_self, weft_cancelled, the shield and scopes work with them.
 * weft_ended_wait tells of the error that is being handled. Calls that wait, as weft_sleep does,
 * cannot be made in a step: that stops the program with a message.
 */
#ifndef WEFT_FRAME_H
#define WEFT_FRAME_H

#include <stdio.h>

#include <weft/chan.h>
#include <weft/cond.h>
#include <weft/dispatcher.h>
#include <weft/event.h>
#include <weft/future.h>
#include <weft/io.h>
#include <weft/mutex.h>
#include <weft/rwlock.h>
#include <weft/scope.h>
#include <weft/select.h>
#include <weft/sem.h>

WEFT_BEGIN_DECLS

typedef struct weft_frame weft_frame;
typedef struct weft_error weft_error;

/* What a step has done; from the calls below. */
enum weft_step {
    WEFT_CALL,    /* goes on without waiting, in another frame or in this one */
    WEFT_SUSPEND, /* waits */
    WEFT_RETURN,  /* is done, by a value or an error */
};

/* What a step is given: how the wait went, and what came of it or of the call. */
struct weft_got {
    int status; /* 0; or, of a wait, -ETIMEDOUT, and what its own contract adds */
    void *value;
};

typedef enum weft_step (*weft_step_fn)(weft_frame *frame, struct weft_got got);

/* Where a frame goes on; made by WEFT_THEN, which knows the line. */
struct weft_point {
    weft_step_fn fn;
    const char *name, *file;
    unsigned line;
};
#define WEFT_THEN(step)                                                                            \
    (__extension__({                                                                               \
        static const struct weft_point weft_point_ = {(step), #step, __FILE__, __LINE__};          \
        &weft_point_;                                                                              \
    }))

/* One static record for all frames of a kind. */
struct weft_frame_kind {
    const char *name;
    weft_step_fn start;
    /* Of an error of this frame, or of one it called. Returns as a step does; to let it pass,
     * weft_frame_rethrow. The error lives until the handling is over: keep what you need of it.
     * NULL: it passes. */
    enum weft_step (*handle)(weft_frame *frame, const weft_error *error);
    /* On every way out. To go on with the result or the error there is, weft_frame_done. NULL:
     * nothing to do. */
    enum weft_step (*finally)(weft_frame *frame);
};

/* The first member of a frame. */
struct weft_frame {
    /* private */
    const struct weft_frame_kind *kind;
    const struct weft_point *next;
    weft_frame *caller;
    void *kept;     /* the result or the error that waits for finally */
    void *wait;     /* what it waits for, or calls */
    uint32_t fiber; /* that it belongs to; 0: none */
    uint8_t act, waits;
    unsigned phase : 2, size : 6, pooled : 1, failed : 1, tries : 1, caught : 1;
};

/* Before its first use; again before every further one. */
WEFT_API void weft_frame_init(weft_frame *frame, const struct weft_frame_kind *kind);
/* The same from a pool: `bytes` is that of your struct, zeroed behind the frame. It goes back by
 * itself when the frame is done. NULL: no memory. */
WEFT_API weft_frame *weft_frame_new(const struct weft_frame_kind *kind, size_t bytes);
/* For one that was never used. */
WEFT_API void weft_frame_free(weft_frame *frame);

/* --- fibers ----------------------------------------------------------------------------- */

/* Starts a fiber whose bottom is this frame. As weft_group_spawn; the result is what the frame
 * returns, and a join answers the code of the error that ended it. The frame is the fiber's until
 * it has ended, and still the caller's after an error of spawn. A fiber without a name is shown by
 * its bottom frame's. */
WEFT_API int weft_group_spawn_frame(weft_group *group, weft_fiber *out, weft_frame *frame,
                                    const struct weft_member_opts *opts);
/* As weft_pool_spawn; of the options name and detached count. */
WEFT_API int weft_pool_spawn_frame(weft_pool *pool, weft_fiber *out, weft_frame *frame,
                                   const struct weft_fiber_opts *opts);
/* As weft_spawn: in the pool or the group of the fiber that calls, which may be of either kind. */
WEFT_API int weft_spawn_frame(weft_fiber *out, weft_frame *frame,
                              const struct weft_fiber_opts *opts);
/* As weft_scope_spawn. That the child ends by an error is its failure; its result does not
 * matter. */
WEFT_API int weft_scope_spawn_frame(weft_scope *scope, weft_fiber *out, weft_frame *frame,
                                    const struct weft_fiber_opts *opts);

/* --- steps that do not wait ------------------------------------------------------------- */

/* Calls another frame; then goes on with what it returned as got.value. */
WEFT_API enum weft_step weft_frame_call(weft_frame *frame, weft_frame *sub,
                                        const struct weft_point *then);
/* The same, and never throws: got.status is 0 or the error's code, and weft_frame_caught has the
 * error itself, until the step has returned. */
WEFT_API enum weft_step weft_frame_try(weft_frame *frame, weft_frame *sub,
                                       const struct weft_point *then);
WEFT_API const weft_error *weft_frame_caught(const weft_frame *frame);
/* Goes on in this frame at once: a loop that needs no stack. */
WEFT_API enum weft_step weft_frame_go(weft_frame *frame, void *value,
                                      const struct weft_point *then);
/* Is done. In finally: with this instead of what was on its way. */
WEFT_API enum weft_step weft_frame_return(weft_frame *frame, void *value);
/* In finally: is done, with what was on its way. Elsewhere: is done, with NULL. */
WEFT_API enum weft_step weft_frame_done(weft_frame *frame);

/* --- errors -------------------------------------------------------------------------------- */

/* Ends the frame by an error: `code` is a negative errno. Of the text up to 255 bytes are kept.
 * Without memory for it the error is an -ENOMEM that has neither text nor frames. */
WEFT_API enum weft_step weft_frame_throw(weft_frame *frame, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, because of another one, of which it keeps a copy as `cause`. */
WEFT_API enum weft_step weft_frame_throw_for(weft_frame *frame, int code, const weft_error *cause,
                                             const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* In handle: the error passes on as it is. */
WEFT_API enum weft_step weft_frame_rethrow(weft_frame *frame);

WEFT_API int weft_error_code(const weft_error *error);
WEFT_API const char *weft_error_message(const weft_error *error);          /* "" if there is none */
WEFT_API const weft_error *weft_error_cause(const weft_error *error);      /* or NULL */
WEFT_API const weft_error *weft_error_suppressed(const weft_error *error); /* or NULL */
/* How many frames the fiber had when it happened, and what one of them was about to do; 0 is the
 * innermost. */
struct weft_error_frame {
    const char *frame; /* its kind's name */
    const char *step,
        *file; /* the function, and where it was said to be next; of a start file is NULL */
    unsigned line;
};
WEFT_API size_t weft_error_frames(const weft_error *error);
WEFT_API struct weft_error_frame weft_error_frame(const weft_error *error, size_t i);
/* As lines of text, with what it was caused by and what it suppressed. */
WEFT_API void weft_error_print(const weft_error *error, FILE *out);

/* Told of every error that ended a fiber; it must not wait. Default: printed to stderr. NULL: the
 * default. Returns what was set before. */
typedef void (*weft_error_fn)(weft_fiber fiber, const char *name, const weft_error *error);
WEFT_API weft_error_fn weft_frame_on_error(weft_error_fn fn);

/* --- steps that wait -------------------------------------------------------------------------- */

/* A frame's place in what it waits for. Yours, in the frame; may be used again for the next
 * wait. */
struct weft_wait {
    /* private */
    void *weft_private[10];
};

/* Each takes an absolute deadline, as all waits; got.status is -ETIMEDOUT when it has passed,
 * unless it says otherwise. A cancel and an interrupt throw -ECANCELED and -EINTR. What need not be
 * waited for goes on at once. */

/* To the back of the line. No deadline, and nothing ends it: it goes on in any case. */
WEFT_API enum weft_step weft_frame_yield(weft_frame *frame, const struct weft_point *then);
/* got.status is 0 when the time has come. */
WEFT_API enum weft_step weft_frame_sleep(weft_frame *frame, int64_t until,
                                         const struct weft_point *then);
/* Until weft_unpark of this fiber. */
WEFT_API enum weft_step weft_frame_park(weft_frame *frame, int64_t deadline,
                                        const struct weft_point *then);
WEFT_API enum weft_step weft_frame_await_event(weft_frame *frame, struct weft_wait *wait,
                                               weft_event *event, int64_t deadline,
                                               const struct weft_point *then);
/* Takes n permits of the semaphore, all or none: got.status 0. */
WEFT_API enum weft_step weft_frame_await_sem(weft_frame *frame, struct weft_wait *wait,
                                             weft_sem *sem, uint64_t n, int64_t deadline,
                                             const struct weft_point *then);
/* Locks the mutex, as weft_mutex_lock. The frame fiber is the holder: one of its later steps
 * unlocks, by weft_mutex_unlock, on whatever worker that step runs; dumps name the fiber, and the
 * search for cycles follows it. Unlock in `finally` what must not stay locked after an error.
 *
 * Returns: got.status 0 with the mutex locked; -ETIMEDOUT without it. Throws -ECANCELED and -EINTR
 * without it, and -ENOMEM if there is no memory for the deadline. To lock what the fiber holds
 * already is a caller's bug; so are locks against their ranks, in debug builds.
 * Context: a step of a frame fiber. A cancellation point, unless the mutex is free. A free mutex is
 * taken at once, also before those who wait; a fiber that waits is handed the mutex by an unlock,
 * in the order of the waiters, and is never woken to try again. */
WEFT_API enum weft_step weft_frame_await_mutex(weft_frame *frame, struct weft_wait *wait,
                                               weft_mutex *mutex, int64_t deadline,
                                               const struct weft_point *then);
/* Locks the rwlock for reading, as weft_rwlock_read; weft_rwlock_read_unlock in a later step
 * unlocks it, on whatever worker.
 *
 * Returns and throws as weft_frame_await_mutex. As there, whoever has locked unlocks; a second read
 * lock by the same fiber may wait for ever.
 * Context: a step of a frame fiber. A cancellation point, unless the lock is free. */
WEFT_API enum weft_step weft_frame_await_rwlock_read(weft_frame *frame, struct weft_wait *wait,
                                                     weft_rwlock *lock, int64_t deadline,
                                                     const struct weft_point *then);
/* Locks the rwlock for writing, as weft_rwlock_write; weft_rwlock_write_unlock in a later step
 * unlocks it. The frame fiber is the writer that weft_rwlock_writer and dumps name.
 *
 * Returns and throws as weft_frame_await_mutex.
 * Context: a step of a frame fiber. A cancellation point, unless the lock is free. */
WEFT_API enum weft_step weft_frame_await_rwlock_write(weft_frame *frame, struct weft_wait *wait,
                                                      weft_rwlock *lock, int64_t deadline,
                                                      const struct weft_point *then);
/* Until it is signalled, without a mutex: for a condition of the fiber's own group, whose state
 * nobody else touches. */
WEFT_API enum weft_step weft_frame_await_cond(weft_frame *frame, struct weft_wait *wait,
                                              weft_cond *cond, int64_t deadline,
                                              const struct weft_point *then);
/* The same with n of them, and as many waits (1 .. 64): got.value is the one that was signalled. */
WEFT_API enum weft_step weft_frame_await_conds(weft_frame *frame, struct weft_wait *waits,
                                               weft_cond *const *conds, size_t n, int64_t deadline,
                                               const struct weft_point *then);
/* got.value is the future's. Throws what it failed with; and -ETIMEDOUT, because then there is no
 * value. */
WEFT_API enum weft_step weft_frame_await_future(weft_frame *frame, struct weft_wait *wait,
                                                weft_future *future, int64_t deadline,
                                                const struct weft_point *then);
/* -EPIPE as weft_chan_send, weft_chan_recv. `item` stays where it is until the next step. */
WEFT_API enum weft_step weft_frame_await_send(weft_frame *frame, struct weft_wait *wait,
                                              weft_chan *chan, const void *item, int64_t deadline,
                                              const struct weft_point *then);
WEFT_API enum weft_step weft_frame_await_recv(weft_frame *frame, struct weft_wait *wait,
                                              weft_chan *chan, void *item, int64_t deadline,
                                              const struct weft_point *then);
/* got.value is the fiber's result; got.status what weft_join answers. */
WEFT_API enum weft_step weft_frame_await_join(weft_frame *frame, struct weft_wait *wait,
                                              weft_fiber fiber, int64_t deadline,
                                              const struct weft_point *then);
/* Until the descriptor is ready for `events`: WEFT_READABLE or WEFT_WRITABLE. got.status: 0, or
 * what else weft_fd_wait answers. Throws -ENOMEM. */
WEFT_API enum weft_step weft_frame_await_fd(weft_frame *frame, struct weft_wait *wait, int fd,
                                            int events, int64_t deadline,
                                            const struct weft_point *then);
/* Closes a scope that a step of this fiber has opened: got.status is what weft_scope_close answers,
 * also after a cancel or an interrupt, and nothing is thrown. Where the scope is in a frame, that
 * has to close it before it leaves; its finally can. weft_scope_deadline is that of the scopes
 * around the fiber. */
WEFT_API enum weft_step weft_frame_await_scope(weft_frame *frame, struct weft_wait *wait,
                                               weft_scope *scope, const struct weft_point *then);
/* As weft_select with n cases, and as many waits (1 .. 64): got.status is the index of the one that
 * was done, got.value the case itself. A condition is given without a mutex. */
WEFT_API enum weft_step weft_frame_select(weft_frame *frame, struct weft_wait *waits,
                                          struct weft_case *cases, size_t n, int64_t deadline,
                                          const struct weft_point *then);
/* In a group: as weft_group_sleep. */
WEFT_API enum weft_step weft_frame_await_stop(weft_frame *frame, struct weft_wait *wait,
                                              int64_t deadline, const struct weft_point *then);

WEFT_END_DECLS
#endif
