/* Jobs: a queue of functions to be run elsewhere, and the hand-over between who waits for one and
 * who runs it.
 *
 * A job's state is under the queue's lock:
 *
 *   from     to       by       function  and
 *   -------  -------  -------  --------  ----------------------------------------------------------
 *   IDLE     QUEUED   caller   push      with its node; the queue takes a reference
 *   QUEUED   RUNNING  thread   take      from here on it cannot be taken back
 *   QUEUED   IDLE     caller   leave     it never ran; the queue's reference is given back
 *   QUEUED   IDLE     stopper  drop_all  the same, and the caller is told by its node
 *   RUNNING  RUNNING  caller   leave     detached: the thread finds no node
 *   RUNNING  IDLE     thread   end       it has run; the caller, if it is still there, is told by
 *                                        its node
 *
 * The caller may be gone as soon as its node was fired, and its job with it if that is on its
 * stack: the thread gives its reference back *before* it fires, and after the fire touches the job
 * only if that was the last one, in which case there was nobody to fire. The caller gives its own
 * back without the lock: the count is atomic.
 *
 * A caller whose wait has ended by its deadline just when the job was done finds IDLE in leave, and
 * has the result.
 */
#ifndef WEFT_SYNC_JOB_H
#define WEFT_SYNC_JOB_H

#include <weft/blocking.h>

#include "sync/source.h"

enum weft__job_state {
    WEFT__JOB_IDLE,
    WEFT__JOB_QUEUED,
    WEFT__JOB_RUNNING,
};

/* The private part of a weft_blocking_job. */
struct WEFT__OVERLAY weft__job {
    void (*run)(struct weft_blocking_job *job);
    void (*release)(struct weft_blocking_job *job); /* NULL: on the caller's stack */
    bool started;                                   /* the caller's */
    /* under the queue's lock */
    struct weft__job *next, *prev;
    struct weft__node *node; /* who waits for it; NULL: nobody any more */
    bool ran;
    uint8_t state;
    /* any thread */
    _Atomic(uint32_t) refs;
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__job) <= sizeof(struct weft_blocking_job), "the public storage");
#endif

struct weft__jobs {
    struct weft__source source;
    struct weft__job *first, *last; /* under the lock */
    unsigned queued;
    uint64_t ended; /* functions that returned */
};

static inline struct weft__job *weft__job_of(struct weft_blocking_job *job)
{
    return (struct weft__job *)(void *)job;
}

void weft__job_init(struct weft__job *job, void (*run)(struct weft_blocking_job *),
                    void (*release)(struct weft_blocking_job *));
/* True: that was the last reference, and the caller of this releases the job. */
bool weft__job_unref(struct weft__job *job);

/* The node's waiter is armed. */
void weft__jobs_push_locked(struct weft__jobs *jobs, struct weft__job *job,
                            struct weft__node *node);
/* The oldest one, to be run by the caller; NULL: none is queued. */
struct weft__job *weft__jobs_take_locked(struct weft__jobs *jobs);
/* After its function has returned. Takes the lock. */
void weft__jobs_end(struct weft__jobs *jobs, struct weft__job *job);
/* Nobody will run them: their callers get `status`. */
void weft__jobs_drop_all_locked(struct weft__jobs *jobs, int status, struct weft__chain *ready);

/* How a job was when its caller left. */
enum weft__job_left {
    WEFT__JOB_NEVER_RAN,
    WEFT__JOB_RUNS, /* and goes on */
    WEFT__JOB_RAN,
};
/* Finish, for a caller whose wait was ended by something else than its node. Takes the lock. */
enum weft__job_left weft__jobs_leave(struct weft__jobs *jobs, struct weft__job *job);

/* Parks until the job that was pushed with this armed waiter has run, or the wait is ended. */
enum weft__reason weft__jobs_park(struct weft__jobs *jobs, struct weft__waiter *waiter,
                                  int64_t deadline);
/* Waits until the job has run, whatever comes: no deadline, cancel, interrupt or abort. For a
 * caller that left it running and cannot go, because it lies on its stack. */
void weft__jobs_await(struct weft__jobs *jobs, struct weft__job *job);

#endif
