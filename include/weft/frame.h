/* Frame fibers: stackless fibers (hand-written coroutines), for programs with very many fibers. A
 * parked or sleeping frame fiber costs less than 200 bytes; a fiber that waits on an object keeps
 * the wait record, 80 bytes, in its frame. A frame fiber never uses more than its control block and
 * its frames.
 *
 * A frame is a struct of the program that begins with a weft_frame: the locals of one call, and the
 * point where the call resumes. A frame runs in steps, which are plain functions. A step cannot
 * wait; it names the object to wait for and the next step function, and returns:
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
 * Every step ends with `return weft_frame_...(f, ...)`: it calls another frame (CALL), waits
 * (SUSPEND), or is done (RETURN). The engine compares the step's return value with the call that
 * the step made; a step that made none of these calls, or two of them, is a fatal error that names
 * the frame.
 *
 * Errors. weft_frame_throw ends the frame with an error; so does a cancel or an interrupt that ends
 * a wait, and a future that has failed. The frame's `handle` is called with the error, once;
 * without a `handle`, or if `handle` throws again, the error propagates to the frame's caller. Then
 * `finally` is called exactly once, however the frame is left. Both are steps: they may call and
 * wait. A cancel or an interrupt does not end the waits of `finally`. An error of `finally`
 * replaces the pending error and keeps it as `suppressed`. An error that leaves the bottom frame of
 * a fiber is reported (weft_frame_on_error) and becomes the status of a join of the fiber.
 *
 * Misuse. A step that made two calls or none, or returned something other than what it did; a frame
 * that is called while it is in use, by this fiber or another; a wait with a frame that is not the
 * frame whose step runs; weft_frame_rethrow without an error: in a group each of these is an
 * ordinary error with the code -ENOTRECOVERABLE and the frame's name, and it also fails the group
 * (weft_group_fail). In a pool it stops the program with a message.
 *
 * Frame fibers run in a group of a dispatcher or in a pool; they are fibers: weft_join,
 * weft_cancel, weft_fiber_interrupt, weft_self, weft_fiber_is_cancelled, the shield and scopes work
 * with them. weft_fiber_ended_wait describes the wait that ended with the error that is being
 * handled. A step must not make calls that wait, such as weft_sleep: they stop the program with a
 * message.
 */
#ifndef WEFT_FRAME_H
#define WEFT_FRAME_H

#include <stdio.h>

#include <weft/chan.h>
#include <weft/dispatcher.h>
#include <weft/future.h>
#include <weft/io.h>
#include <weft/scope.h>
#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_frame weft_frame;
typedef struct weft_error weft_error;

/* What a step did; returned by the calls below. */
enum weft_step {
    WEFT_CALL,    /* continues without waiting, in another frame or in this one */
    WEFT_SUSPEND, /* waits */
    WEFT_RETURN,  /* is done, with a value or an error */
};

/* The input of a step: the status of the wait, and the value of the wait or of the call. */
struct weft_got {
    int status; /* 0; for a wait also -ETIMEDOUT and the statuses that its own contract adds */
    void *value;
};

typedef enum weft_step (*weft_step_fn)(weft_frame *frame, struct weft_got got);

/* Where a frame resumes; made by WEFT_THEN, which records the source line. */
struct weft_resume_point {
    weft_step_fn fn;
    const char *name, *file;
    unsigned line;
};
#define WEFT_THEN(step)                                                                            \
    (__extension__({                                                                               \
        static const struct weft_resume_point weft_resume_point_ = {(step), #step, __FILE__,       \
                                                                    __LINE__};                     \
        &weft_resume_point_;                                                                       \
    }))

/* One static record for all frames of a kind. */
struct weft_frame_kind {
    const char *name;
    weft_step_fn start;
    /* Called with an error of this frame or of a frame that it called. Returns as a step does;
     * weft_frame_rethrow lets the error propagate. The error lives until the handling is over: copy
     * the parts that are needed later. NULL: the error propagates. */
    enum weft_step (*handle)(weft_frame *frame, const weft_error *error);
    /* Called whenever the frame is left. weft_frame_done continues with the pending result or
     * error. NULL: nothing to clean up. */
    enum weft_step (*finally)(weft_frame *frame);
};

/* The first member of a frame. */
struct weft_frame {
    /* private */
    const struct weft_frame_kind *kind;
    const struct weft_resume_point *next;
    weft_frame *caller;
    void *pending_outcome; /* the pending result or error, while finally runs */
    void *wait;            /* the wait records, or the frame that is called */
    uint32_t fiber;        /* slot of the fiber that uses the frame; 0: unused */
    uint8_t act, waits;
    unsigned phase : 2, size : 6, pooled : 1, failed : 1, is_try : 1, caught : 1;
};

/* Initialise a frame in the program's memory, before its first use and again before every further
 * use.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_frame_init(weft_frame *frame, const struct weft_frame_kind *kind);

/* Allocate and initialise a frame from a pool. The frame returns to the pool by itself when it is
 * done.
 *
 * bytes: the size of the program's struct; the bytes after the weft_frame are zeroed.
 * Returns the frame; NULL if there is no memory.
 * Context: any thread; does not wait. */
WEFT_API weft_frame *weft_frame_create(const struct weft_frame_kind *kind, size_t bytes);

/* Free a frame of weft_frame_create that was never called or spawned. NULL is ignored. Stops the
 * program if the frame is in use.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_frame_destroy(weft_frame *frame);

/* --- fibers ----------------------------------------------------------------------------- */

/* Start a fiber in the group with this bottom frame. The fiber's result is the value that the frame
 * returns; a join returns the code of the error that ended the frame. A fiber without a name is
 * shown under the name of its bottom frame. Stops the program if the frame is in use.
 *
 * frame: the fiber owns it until the fiber has ended; after an error of this call the caller still
 * owns it.
 * Returns 0 and a handle in *out (NULL if not wanted), or the errors of weft_group_spawn.
 * Context: any thread; does not wait. */
WEFT_API int weft_group_spawn_frame(weft_group *group, weft_fiber *out, weft_frame *frame,
                                    const struct weft_member_opts *opts);

/* Start a fiber in the pool with this bottom frame; otherwise like weft_group_spawn_frame.
 *
 * opts: only `name` and `detached` are used.
 * Returns 0 and a handle in *out (NULL if not wanted); -EINVAL for a dispatcher's pool (use
 * weft_group_spawn_frame); otherwise the errors of weft_pool_spawn.
 * Context: any thread; does not wait. */
WEFT_API int weft_pool_spawn_frame(weft_pool *pool, weft_fiber *out, weft_frame *frame,
                                   const struct weft_fiber_opts *opts);

/* Start a fiber with this bottom frame in the pool or the group of the calling fiber, which may be
 * a frame fiber or a fiber with a stack; otherwise like weft_group_spawn_frame.
 *
 * opts: only `name` and `detached` are used.
 * Returns 0 and a handle in *out (NULL if not wanted); -ENXIO outside a fiber (use
 * weft_pool_spawn_frame); otherwise the errors of weft_spawn.
 * Context: fiber only, or a posted function of a group; does not wait. */
WEFT_API int weft_spawn_frame(weft_fiber *out, weft_frame *frame,
                              const struct weft_fiber_opts *opts);

/* Start a child of the scope with this bottom frame. The child fails if it ends with an error; its
 * result is ignored.
 *
 * opts: only `name` is used.
 * Returns 0 and a handle in *out (NULL if not wanted), or the errors of weft_scope_spawn.
 * Context: as weft_scope_spawn; does not wait. */
WEFT_API int weft_scope_spawn_frame(weft_scope *scope, weft_fiber *out, weft_frame *frame,
                                    const struct weft_fiber_opts *opts);

/* --- steps that do not wait ------------------------------------------------------------- */

/* Call another frame; the next step gets the returned value in got.value. An error of `sub` is
 * thrown in `frame`.
 *
 * Returns WEFT_CALL, for the step to return.
 * Context: a step of `frame`; does not wait. */
WEFT_API enum weft_step weft_frame_call(weft_frame *frame, weft_frame *sub,
                                        const struct weft_resume_point *then);

/* Call another frame and catch its error: got.status is 0 or the code of the error, and
 * weft_frame_caught returns the error itself until the next step has returned.
 *
 * Returns WEFT_CALL, for the step to return.
 * Context: a step of `frame`; does not wait. */
WEFT_API enum weft_step weft_frame_try(weft_frame *frame, weft_frame *sub,
                                       const struct weft_resume_point *then);

/* Return the error that weft_frame_try caught, or NULL. The error lives until the step has
 * returned.
 *
 * Context: the step after weft_frame_try; does not wait. */
WEFT_API const weft_error *weft_frame_caught(const weft_frame *frame);

/* Continue in this frame with another step, without waiting: a loop that needs no stack. The next
 * step gets `value` in got.value.
 *
 * Returns WEFT_CALL, for the step to return.
 * Context: a step of `frame`; does not wait. */
WEFT_API enum weft_step weft_frame_continue(weft_frame *frame, void *value,
                                            const struct weft_resume_point *then);

/* End the frame with a result. In `finally` the result replaces the pending result or error.
 *
 * Returns WEFT_RETURN, for the step to return.
 * Context: a step of `frame`; does not wait. */
WEFT_API enum weft_step weft_frame_return(weft_frame *frame, void *value);

/* End the frame: in `finally` with the pending result or error, elsewhere with the result NULL.
 *
 * Returns WEFT_RETURN, for the step to return.
 * Context: a step of `frame`; does not wait. */
WEFT_API enum weft_step weft_frame_done(weft_frame *frame);

/* --- errors -------------------------------------------------------------------------------- */

/* End the frame with an error.
 *
 * code: a negative errno.
 * format: printf format of the message; at most 255 bytes are kept. Without memory the error is an
 * -ENOMEM that has no message and no frames.
 * Returns WEFT_RETURN, for the step to return.
 * Context: a step of `frame`; does not wait. */
WEFT_API enum weft_step weft_frame_throw(weft_frame *frame, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* End the frame with an error that another error caused; `cause` is copied. Otherwise like
 * weft_frame_throw.
 *
 * Returns WEFT_RETURN, for the step to return.
 * Context: a step of `frame`; does not wait. */
WEFT_API enum weft_step weft_frame_throw_from(weft_frame *frame, int code, const weft_error *cause,
                                              const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Let the error that is being handled propagate unchanged.
 *
 * Returns WEFT_RETURN, for the step to return.
 * Context: `handle` of `frame`, or a step that it led to; does not wait. */
WEFT_API enum weft_step weft_frame_rethrow(weft_frame *frame);

/* Return the error's code (a negative errno), its message ("" if it has none), the error that
 * caused it (or NULL), or the error that it suppressed (or NULL). Strings and errors live as long
 * as `error`.
 *
 * Context: any thread; does not wait. */
WEFT_API int weft_error_code(const weft_error *error);
WEFT_API const char *weft_error_message(const weft_error *error);
WEFT_API const weft_error *weft_error_cause(const weft_error *error);
WEFT_API const weft_error *weft_error_suppressed(const weft_error *error);

/* A frame of an error's trace: the name of its kind, the step that it ran or was about to run, and
 * the source line that named the step. file is NULL for start, handle and finally. */
struct weft_error_frame {
    const char *frame;
    const char *step, *file;
    unsigned line;
};

/* Return the number of frames in the error's trace: the frames that the fiber had when the error
 * happened, at most the innermost 64.
 *
 * Context: any thread; does not wait. */
WEFT_API size_t weft_error_frames(const weft_error *error);

/* Return frame i of the error's trace; 0 is the innermost. Stops the program if i is not less than
 * weft_error_frames.
 *
 * Context: any thread; does not wait. */
WEFT_API struct weft_error_frame weft_error_frame(const weft_error *error, size_t i);

/* Write the error as lines of text, with its trace, its cause and the error that it suppressed.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_error_dump(const weft_error *error, FILE *out);

/* A function that gets every error that ended a fiber, except -ECANCELED of a fiber that was
 * cancelled. It must not wait. */
typedef void (*weft_error_fn)(weft_fiber fiber, const char *name, const weft_error *error);

/* Set the function that gets errors that ended a frame fiber. The default writes them to stderr.
 *
 * fn: NULL for the default.
 * Returns the function that was set before.
 * Context: any thread; does not wait. */
WEFT_API weft_error_fn weft_frame_on_error(weft_error_fn fn);

/* --- steps that wait -------------------------------------------------------------------------- */

/* The record of one wait. The program provides it in the frame; it may be used again for the next
 * wait. */
struct weft_wait {
    /* private */
    void *weft_private[10];
};

/* Deadlines are absolute; got.status is -ETIMEDOUT after the deadline has passed, unless a contract
 * says otherwise. A cancel throws -ECANCELED and an interrupt throws -EINTR. Each call returns
 * WEFT_SUSPEND, WEFT_CALL if the frame continues at once because it need not wait, or WEFT_RETURN
 * if the call threw; the step returns that value. */

/* Yield: move the fiber to the back of the run queue. A cancel or an interrupt does not end the
 * yield.
 *
 * Returns the value for the step to return.
 * Context: a step of `frame`; suspends the fiber; not a cancellation point. */
WEFT_API enum weft_step weft_frame_yield(weft_frame *frame, const struct weft_resume_point *then);

/* Sleep until the time `until`; got.status is 0 then.
 *
 * Returns the value for the step to return.
 * Context: a step of `frame`; suspends the fiber; a cancellation point. */
WEFT_API enum weft_step weft_frame_sleep(weft_frame *frame, int64_t until,
                                         const struct weft_resume_point *then);

/* Park until weft_fiber_unpark is called for this fiber; got.status is 0 or -ETIMEDOUT.
 *
 * Returns the value for the step to return.
 * Context: a step of `frame`; suspends the fiber; a cancellation point. */
WEFT_API enum weft_step weft_frame_park(weft_frame *frame, int64_t deadline,
                                        const struct weft_resume_point *then);

/* Wait until the event is set; got.status is 0 or -ETIMEDOUT.
 *
 * Returns the value for the step to return.
 * Context: a step of `frame`; suspends the fiber unless the event is set; a cancellation point. */
WEFT_API enum weft_step weft_frame_await_event(weft_frame *frame, struct weft_wait *wait,
                                               weft_event *event, int64_t deadline,
                                               const struct weft_resume_point *then);

/* Take n permits of the semaphore, all or none; got.status is 0 or -ETIMEDOUT.
 *
 * Returns the value for the step to return.
 * Context: a step of `frame`; suspends the fiber unless the permits are available; a cancellation
 * point. */
WEFT_API enum weft_step weft_frame_await_sem(weft_frame *frame, struct weft_wait *wait,
                                             weft_sem *sem, uint64_t n, int64_t deadline,
                                             const struct weft_resume_point *then);

/* Lock the mutex, as weft_mutex_lock does. The frame fiber is the holder: one of its later steps
 * unlocks, with weft_mutex_unlock, on whatever worker that step runs; dumps name the fiber, and
 * cycle detection follows it. Unlock in `finally` a mutex that must not stay locked after an error.
 * A free mutex is taken at once, also ahead of waiters; a waiting fiber gets the mutex from an
 * unlock, in the order of the waiters, and is never woken to try again. Locking a mutex that the
 * fiber holds already stops the program; so does, in debug builds, locking against the ranks.
 *
 * Returns the value for the step to return. got.status is 0 with the mutex locked, or -ETIMEDOUT
 * without it. Throws -ECANCELED and -EINTR without the mutex, and -ENOMEM if there is no memory for
 * the deadline.
 * Context: a step of `frame`; suspends the fiber unless the mutex is free; a cancellation point
 * unless the mutex is free. */
WEFT_API enum weft_step weft_frame_await_mutex(weft_frame *frame, struct weft_wait *wait,
                                               weft_mutex *mutex, int64_t deadline,
                                               const struct weft_resume_point *then);

/* Lock the rwlock for reading, as weft_rwlock_read does; weft_rwlock_read_unlock in a later step
 * unlocks it, on whatever worker. The locking fiber must unlock; a second read lock by the same
 * fiber may wait forever.
 *
 * Returns and throws as weft_frame_await_mutex.
 * Context: a step of `frame`; suspends the fiber unless the lock is free; a cancellation point
 * unless the lock is free. */
WEFT_API enum weft_step weft_frame_await_rwlock_read(weft_frame *frame, struct weft_wait *wait,
                                                     weft_rwlock *lock, int64_t deadline,
                                                     const struct weft_resume_point *then);

/* Lock the rwlock for writing, as weft_rwlock_write does; weft_rwlock_write_unlock in a later step
 * unlocks it. The frame fiber is the writer that dumps name.
 *
 * Returns and throws as weft_frame_await_mutex.
 * Context: a step of `frame`; suspends the fiber unless the lock is free; a cancellation point
 * unless the lock is free. */
WEFT_API enum weft_step weft_frame_await_rwlock_write(weft_frame *frame, struct weft_wait *wait,
                                                      weft_rwlock *lock, int64_t deadline,
                                                      const struct weft_resume_point *then);

/* Wait until the condition is signalled, without a mutex: for a condition of the fiber's own group
 * whose state no other thread touches. got.status is 0 or -ETIMEDOUT; got.value is the condition.
 *
 * Returns the value for the step to return.
 * Context: a step of `frame`; suspends the fiber; a cancellation point. */
WEFT_API enum weft_step weft_frame_await_cond(weft_frame *frame, struct weft_wait *wait,
                                              weft_cond *cond, int64_t deadline,
                                              const struct weft_resume_point *then);

/* Wait until one of n conditions (1 .. 64) is signalled, with n wait records; got.value is the
 * condition that was signalled. Stops the program for another n.
 *
 * Returns the value for the step to return.
 * Context: a step of `frame`; suspends the fiber; a cancellation point. */
WEFT_API enum weft_step weft_frame_await_conds(weft_frame *frame, struct weft_wait *waits,
                                               weft_cond *const *conds, size_t n, int64_t deadline,
                                               const struct weft_resume_point *then);

/* Wait for the future; got.value is its value. Throws the error that the future failed with, and
 * -ETIMEDOUT, because after a timeout there is no value.
 *
 * Returns the value for the step to return.
 * Context: a step of `frame`; suspends the fiber unless the future is complete; a cancellation
 * point. */
WEFT_API enum weft_step weft_frame_await_future(weft_frame *frame, struct weft_wait *wait,
                                                weft_future *future, int64_t deadline,
                                                const struct weft_resume_point *then);

/* Send an item to the channel, or receive an item from it; got.status is 0, -ETIMEDOUT, or -EPIPE
 * as in weft_chan_send and weft_chan_recv. `item` must stay valid until the next step runs.
 *
 * Returns the value for the step to return.
 * Context: a step of `frame`; suspends the fiber unless the channel can transfer the item at once;
 * a cancellation point. */
WEFT_API enum weft_step weft_frame_await_send(weft_frame *frame, struct weft_wait *wait,
                                              weft_chan *chan, const void *item, int64_t deadline,
                                              const struct weft_resume_point *then);
WEFT_API enum weft_step weft_frame_await_recv(weft_frame *frame, struct weft_wait *wait,
                                              weft_chan *chan, void *item, int64_t deadline,
                                              const struct weft_resume_point *then);

/* Join a fiber: got.value is its result, got.status the status that weft_join returns.
 *
 * Returns the value for the step to return.
 * Context: a step of `frame`; suspends the fiber unless the other fiber has ended; a cancellation
 * point. */
WEFT_API enum weft_step weft_frame_await_join(weft_frame *frame, struct weft_wait *wait,
                                              weft_fiber fiber, int64_t deadline,
                                              const struct weft_resume_point *then);

/* Wait until the descriptor is ready for `events`: WEFT_READABLE or WEFT_WRITABLE. got.status is 0,
 * -EINVAL for other events, or another error of weft_fd_wait. Throws -ENOMEM.
 *
 * Returns the value for the step to return.
 * Context: a step of `frame`; suspends the fiber unless the descriptor is ready; a cancellation
 * point. */
WEFT_API enum weft_step weft_frame_await_fd(weft_frame *frame, struct weft_wait *wait, int fd,
                                            int events, int64_t deadline,
                                            const struct weft_resume_point *then);

/* Close a scope that a step of this fiber opened; at the deadline its children are cancelled:
 * got.status is the status that weft_scope_close returns, also after a cancel or an interrupt;
 * nothing is thrown. If the scope is part of a frame, the frame must close it before it is left;
 * its `finally` can. weft_scope_deadline returns the deadline of the scopes around the fiber.
 *
 * Returns the value for the step to return.
 * Context: a step of `frame`; suspends the fiber until all children have ended; a cancel or
 * interrupt cancels the children and does not shorten the wait for them. */
WEFT_API enum weft_step weft_frame_await_scope(weft_frame *frame, struct weft_wait *wait,
                                               weft_scope *scope, int64_t deadline,
                                               const struct weft_resume_point *then);

/* Wait for the first of n cases (1 .. 64), as weft_select does, with n wait records; got.status is
 * the index of the case that was completed, got.value the case itself, or got.status is -ETIMEDOUT.
 * A condition is given without a mutex. Stops the program for another n.
 *
 * Returns the value for the step to return.
 * Context: a step of `frame`; suspends the fiber unless a case can complete at once; a cancellation
 * point. */
WEFT_API enum weft_step weft_frame_select(weft_frame *frame, struct weft_wait *waits,
                                          struct weft_case *cases, size_t n, int64_t deadline,
                                          const struct weft_resume_point *then);

/* Wait until the fiber's group is asked to stop, as weft_group_sleep does; got.status is 0 if the
 * group is stopping, or -ETIMEDOUT. If the group is stopping already, the call yields once. Stops
 * the program outside a group.
 *
 * Returns the value for the step to return.
 * Context: a step of `frame` in a group; suspends the fiber; a cancellation point unless the group
 * is stopping already. */
WEFT_API enum weft_step weft_frame_await_stop(weft_frame *frame, struct weft_wait *wait,
                                              int64_t deadline,
                                              const struct weft_resume_point *then);

WEFT_END_DECLS
#endif
