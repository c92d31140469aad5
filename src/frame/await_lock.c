/* Steps that wait for a lock. The frame fiber is the holder, as a fiber with a stack would be: a
 * later step unlocks, on whatever worker it runs.
 *
 * Each wait tries first, as the blocking call with deadline 0 does, and otherwise queues, to be
 * handed the lock (weft__mutex_arm, weft__rwlock_arm). The unlocker hands the lock over and ends
 * the wait in one atomic step: a waiter whose wait has ended otherwise is skipped, and the lock
 * goes to the next. So a frame that is handed the lock continues with it, with two exceptions,
 * which `abandon` covers: a cancel or an interrupt that arrived between arming and a second check
 * that found the lock free; and a step that performed another action as well.
 */
#include "base/nonnull.h"
#include "frame/frame.h"
#include "sync/mutex.h"
#include "sync/rwlock.h"

/* The fiber whose step runs. */
static struct weft__task *caller(void)
{
    return weft__running(weft__worker_self());
}

static uint64_t self(void)
{
    return weft__holder_of(caller());
}

/* The lock was free when the node was to be linked. `value` records this until the step continues:
 * it is the node's own address, which no unlocker writes there. */
static bool was_taken_at_arm(const struct weft__await *wait)
{
    return wait->node.value == wait;
}

static bool record_arm(struct weft__await *wait, bool waits)
{
    if (!waits) {
        wait->node.value = wait;
    }
    return waits; /* if true, the node may be changed by other threads already */
}

/* Does the fiber hold the lock that it waited for? */
static bool holds_lock(const struct weft__await *wait, enum weft__reason reason)
{
    return was_taken_at_arm(wait) || weft__reason_is_done(reason);
}

static enum weft_step await(weft_frame *frame, struct weft_wait *wait,
                            const struct weft__await_kind *kind, void *lock, int64_t deadline,
                            const struct weft_resume_point *then)
{
    struct weft__task *task;
    struct weft__worker *w = weft__await_begin(frame, &task);
    struct weft__await *a = weft__await_of(wait);
    if (!w) {
        return WEFT_SUSPEND;
    }
    *a = (struct weft__await){.kind = kind, .object = lock, .on = weft__await_address(lock)};
    return weft__await(w, task, frame, a, 1, deadline, then);
}

/* --- mutex ------------------------------------------------------------------------------------ */

static bool attempt_mutex(struct weft__await *wait, struct weft_got *got, int *err)
{
    (void)got, (void)err;
    return was_taken_at_arm(wait) || weft__mutex_try(weft__mutex_of(wait->object));
}

static bool arm_mutex(struct weft__await *wait)
{
    struct weft__mutex *m = weft__mutex_of(wait->object);
    bool waits = weft__mutex_arm(m, &wait->node, self());
    if (!waits) {
        weft__mutex_hold(m, caller());
    }
    return record_arm(wait, waits);
}

static void finish_mutex(struct weft__await *wait)
{
    weft__mutex_finish(weft__mutex_of(wait->object), &wait->node);
}

static int mutex_locked(const struct weft__await *wait, struct weft_got *got)
{
    (void)got;
    weft__mutex_hold(weft__mutex_of(wait->object), caller());
    return 0;
}

static void abandon_mutex(struct weft__await *wait, enum weft__reason reason)
{
    if (holds_lock(wait, reason)) {
        weft_mutex_unlock(wait->object);
    }
}

static const struct weft__await_kind mutex_kind = {
    .wait_kind = {.name = "mutex", .holder = weft__mutex_holder, .label = weft__source_label},
    .attempt = attempt_mutex,
    .arm = arm_mutex,
    .finish = finish_mutex,
    .outcome = mutex_locked,
    .abandon = abandon_mutex,
};

enum weft_step weft_frame_await_mutex(weft_frame *frame, struct weft_wait *wait, weft_mutex *mutex,
                                      int64_t deadline, const struct weft_resume_point *then)
{
    WEFT__NONNULL(mutex);
    return await(frame, wait, &mutex_kind, mutex, deadline, then);
}

/* --- rwlock ----------------------------------------------------------------------------------- */

static int rwlock_locked(const struct weft__await *wait, struct weft_got *got)
{
    (void)wait, (void)got;
    return 0;
}

static bool attempt_read(struct weft__await *wait, struct weft_got *got, int *err)
{
    (void)got, (void)err;
    return was_taken_at_arm(wait) || weft_rwlock_read(wait->object, 0) == 0;
}

static bool arm_read(struct weft__await *wait)
{
    return record_arm(wait, weft__rwlock_arm(weft__rwlock_of(wait->object), &wait->node, 0));
}

static void finish_read(struct weft__await *wait)
{
    weft__rwlock_finish(weft__rwlock_of(wait->object), &wait->node, 0);
}

static void abandon_read(struct weft__await *wait, enum weft__reason reason)
{
    if (holds_lock(wait, reason)) {
        weft_rwlock_read_unlock(wait->object);
    }
}

static const struct weft__await_kind read_kind = {
    .wait_kind = {.name = "rwlock for reading",
                  .holder = weft__rwlock_holder,
                  .label = weft__source_label},
    .attempt = attempt_read,
    .arm = arm_read,
    .finish = finish_read,
    .outcome = rwlock_locked,
    .abandon = abandon_read,
};

enum weft_step weft_frame_await_rwlock_read(weft_frame *frame, struct weft_wait *wait,
                                            weft_rwlock *lock, int64_t deadline,
                                            const struct weft_resume_point *then)
{
    WEFT__NONNULL(lock);
    return await(frame, wait, &read_kind, lock, deadline, then);
}

static bool attempt_write(struct weft__await *wait, struct weft_got *got, int *err)
{
    (void)got, (void)err;
    return was_taken_at_arm(wait) || weft_rwlock_write(wait->object, 0) == 0;
}

static bool arm_write(struct weft__await *wait)
{
    return record_arm(wait, weft__rwlock_arm(weft__rwlock_of(wait->object), &wait->node, self()));
}

static void finish_write(struct weft__await *wait)
{
    weft__rwlock_finish(weft__rwlock_of(wait->object), &wait->node, self());
}

static void abandon_write(struct weft__await *wait, enum weft__reason reason)
{
    if (holds_lock(wait, reason)) {
        weft_rwlock_write_unlock(wait->object);
    }
}

static const struct weft__await_kind write_kind = {
    .wait_kind = {.name = "rwlock for writing",
                  .holder = weft__rwlock_holder,
                  .label = weft__source_label},
    .attempt = attempt_write,
    .arm = arm_write,
    .finish = finish_write,
    .outcome = rwlock_locked,
    .abandon = abandon_write,
};

enum weft_step weft_frame_await_rwlock_write(weft_frame *frame, struct weft_wait *wait,
                                             weft_rwlock *lock, int64_t deadline,
                                             const struct weft_resume_point *then)
{
    WEFT__NONNULL(lock);
    return await(frame, wait, &write_kind, lock, deadline, then);
}
