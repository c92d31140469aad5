/* Jobs: a queue of functions that run on other threads, and the protocol between the caller that
 * waits for a job and the thread that runs it.
 *
 * A job's state is protected by the queue's lock:
 *
 *   from     to       by       function  and
 *   -------  -------  -------  --------  ----------------------------------------------------------
 *   IDLE     QUEUED   caller   push      with its node; the queue takes a reference
 *   QUEUED   RUNNING  thread   take      from here on the job cannot be withdrawn
 *   QUEUED   IDLE     caller   leave     the job never ran; the queue's reference is dropped
 *   QUEUED   IDLE     stopper  drop_all  the same, and the caller is notified through its node
 *   RUNNING  RUNNING  caller   leave     detached: the thread finds no node
 *   RUNNING  IDLE     thread   end       the job has run; the caller, if it still waits, is
 *                                        notified through its node
 *
 * The caller may be gone as soon as its node was fired, and with it a job on its stack: so the
 * thread drops its reference *before* it fires, and after the fire accesses the job only if that
 * was the last reference, in which case there was no node to fire. The caller drops its own
 * reference without the lock: the count is atomic.
 *
 * A caller whose wait ended by its deadline just when the job finished finds IDLE in leave, and has
 * the result.
 */
#ifndef WEFT_BLOCKING_JOB_H
#define WEFT_BLOCKING_JOB_H

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
    void (*release)(struct weft_blocking_job *job); /* NULL: the job is on the caller's stack */
    bool started;                                   /* written by the caller only */
    /* under the queue's lock */
    struct weft__job *next, *prev;
    struct weft__node *node; /* the waiting caller; NULL: no longer waiting */
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
/* True: that was the last reference, and the caller of this function releases the job. */
bool weft__job_unref(struct weft__job *job);

/* The node's waiter is armed. */
void weft__jobs_push_locked(struct weft__jobs *jobs, struct weft__job *job,
                            struct weft__node *node);
/* The oldest job, to be run by the caller; NULL: the queue is empty. */
struct weft__job *weft__jobs_take_locked(struct weft__jobs *jobs);
/* After the job's function has returned. Takes the lock. */
void weft__jobs_finish(struct weft__jobs *jobs, struct weft__job *job);
/* The jobs will not run: their callers get `status`. */
void weft__jobs_drop_all_locked(struct weft__jobs *jobs, int status, struct weft__chain *ready);

/* The state of a job when its caller left. */
enum weft__job_outcome {
    WEFT__JOB_NEVER_RAN,
    WEFT__JOB_RUNS, /* still running */
    WEFT__JOB_RAN,
};
/* Finish, for a caller whose wait was not ended by its node. Takes the lock. */
enum weft__job_outcome weft__jobs_leave(struct weft__jobs *jobs, struct weft__job *job);

/* Parks until the job that was pushed with this armed waiter has run, or the wait ends
 * otherwise. */
enum weft__reason weft__jobs_park(struct weft__jobs *jobs, struct weft__waiter *waiter,
                                  int64_t deadline);
/* Waits until the job has run, regardless of deadline, cancel, interrupt or abort. For a caller
 * that left the job running and cannot return, because the job is on its stack. */
void weft__jobs_await(struct weft__jobs *jobs, struct weft__job *job);

#endif
