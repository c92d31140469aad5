/* A dispatcher: one thread that runs groups of fibers, fairly, and in an order that can be told in
 * advance.
 *
 * What one thread does alone needs no locks: fibers of a group take turns, and nothing else runs
 * between two of their waits. So a group is the place for state that many fibers share: a Raft
 * node, a game's world, an engine of a protocol. Fibers are of both kinds here, with a stack
 * (<weft/fiber.h>) and without (<weft/frame.h>); timers, I/O and all objects one can wait on work
 * as in a pool. A dispatcher's fibers stay on its thread.
 *
 * Order. The thread goes in rounds: it takes in what other threads have sent, fires timers, calls
 * what was posted, then gives each group that is ready a turn. In a turn a group's fibers run one
 * after another until none is ready. A fiber that is woken by an object goes before those that are
 * ready; one woken by a timer, by I/O, by its name (weft_unpark, weft_interrupt, weft_cancel), from
 * another thread, or by the end of another fiber, behind them; one that yields, to the next turn.
 * One that is started goes behind them too, or before them (`front`). In one round a fiber is woken
 * `signals_per_round` times; after that it waits for the group's next turn, where those that were
 * to go to the front are the first. So two fibers that wake one another keep nobody else from
 * running. The same inputs give the same order: docs/dispatcher.md.
 *
 * Life: create -> start, or run on the caller's thread -> groups come and finish -> stop ->
 * destroy.
 */
#ifndef WEFT_DISPATCHER_H
#define WEFT_DISPATCHER_H

#include <weft/dump.h>
#include <weft/future.h>
#include <weft/perf.h>
#include <weft/pool.h>

WEFT_BEGIN_DECLS

typedef struct weft_dispatcher weft_dispatcher;

/* What is done with groups that have not finished by the deadline of a stop. */
enum weft_overdue {
    WEFT_OVERDUE_WARN,   /* they are dumped to stderr, and waited for on */
    WEFT_OVERDUE_CANCEL, /* the same, and their fibers are cancelled */
};

/* What a fatal error in a group ends: weft_group_fail. */
enum weft_on_fatal {
    WEFT_FATAL_STOPS_GROUP,
    WEFT_FATAL_STOPS_DISPATCHER,
    WEFT_FATAL_ABORTS,
};

struct weft_dispatcher_opts {
    const char
        *name;   /* of any length; its thread is "<name>_0", cut to 15 bytes; default "dispatch" */
    bool caller; /* the creating thread is the dispatcher's: weft_dispatcher_run, _poll */
    enum weft_driver driver; /* as in weft_pool_opts */
    const int *cpu;          /* it is pinned to this one; default: not pinned */
    size_t stack_bytes;      /* of fibers that do not say; default 64 KiB */
    uint64_t max_fibers;     /* live at once, of both kinds; default: as memory allows */
    int64_t timer_tick_ns;   /* as in weft_pool_opts */
    /* It wakes at least so often though nothing happens; default: it does not. */
    int64_t max_poll_ns;
    int spin_rounds; /* rounds in which nothing was to do before it sleeps; default 1; < 0: none */
    /* Longest busy wait before it sleeps, while other threads keep sending at once; default 25000;
     * < 0: none. None with one CPU. */
    int64_t spin_ns;
    int64_t hog_ns;    /* as in weft_pool_opts */
    bool deadlock_off; /* as in weft_pool_opts */
    enum weft_overdue on_overdue;
    bool order_hash; /* weft_dispatcher_order_hash is kept */
    /* Told of its perf events, and of no other's (weft/perf.h), as long as it lives; copied, its
     * `pool` is left alone. Default: nobody. */
    const struct weft_perf *perf;
};

/* As weft_pool_create. */
WEFT_API int weft_dispatcher_create(weft_dispatcher **out, const struct weft_dispatcher_opts *opts);
/* Starts its thread. With `caller` there is none to start, and it is not needed. -EAGAIN: no
 * thread. -ESHUTDOWN: it was asked to stop. */
WEFT_API int weft_dispatcher_start(weft_dispatcher *dispatcher);

/* Lends the calling thread until no group is left that has not finished. -EINVAL: not with
 * `caller`, or another thread. -EBUSY: it is lent already. -ESHUTDOWN: it was stopped. -EDEADLK:
 * all fibers of all pools and dispatchers wait, and nothing is left to wake them (weft/report.h has
 * said which); they stay as they are. */
WEFT_API int weft_dispatcher_run(weft_dispatcher *dispatcher);
/* For a thread that has a loop of its own. poll goes round until nothing is ready, or 64 times, and
 * returns how many fibers ran; then wait for the descriptor to become readable, which it is at once
 * if something is still ready, or for the deadline, and poll again. -EINVAL, -EBUSY, -ESHUTDOWN as
 * run. */
WEFT_API int weft_dispatcher_poll(weft_dispatcher *dispatcher);
WEFT_API int weft_dispatcher_fd(weft_dispatcher *dispatcher);
WEFT_API int64_t weft_dispatcher_next_deadline(weft_dispatcher *dispatcher);

/* Asks all groups to stop, takes no new ones, waits until they have finished, and ends the thread.
 * At the deadline: what `on_overdue` says; then it waits on, with WEFT_OVERDUE_CANCEL for as long
 * again, at least a second. Any thread but the dispatcher's own (-EINPROGRESS: it has begun, and
 * goes on without the caller). Twice too. The number of groups that had not finished by themselves
 * at the deadline; *late, if not NULL, has the names of up to `max` of them, which live as long as
 * the groups. -EBUSY: some have not finished though they were cancelled; stop again to wait again.
 * -EDEADLK: groups are left, and either the dispatcher's thread is a caller that is not in run,
 * poll or stop, or it is the one that calls, and all fibers wait for ever, as in run. -ECANCELED,
 * -EINTR: of the waiting fiber. */
WEFT_API int weft_dispatcher_stop(weft_dispatcher *dispatcher, int64_t deadline, const char **late,
                                  size_t max);
/* Begins that, and does not wait. Any thread. */
WEFT_API void weft_dispatcher_request_stop(weft_dispatcher *dispatcher);
/* One that is stopped, or was never started and has no groups that have not finished; its groups go
 * with it. NULL is fine. */
WEFT_API void weft_dispatcher_destroy(weft_dispatcher *dispatcher);

/* Whose thread is this? NULL: no dispatcher's. */
WEFT_API weft_dispatcher *weft_dispatcher_self(void);
WEFT_API const char *weft_dispatcher_name(const weft_dispatcher *dispatcher);
/* Its pool, for what asks for one: statistics, dumps, perf events. It is started and stopped with
 * its dispatcher only. */
WEFT_API weft_pool *weft_dispatcher_pool(const weft_dispatcher *dispatcher);

/* With order_hash: a number for the order in which fibers have run so far, each known by its group
 * and when it was started. Two runs with the same number went the same way. Any thread; 0: it is
 * not kept. */
WEFT_API uint64_t weft_dispatcher_order_hash(const weft_dispatcher *dispatcher);

struct weft_dispatcher_stats {
    uint64_t rounds;   /* it has gone */
    uint64_t executed; /* times that a fiber ran */
    uint64_t sleeps;   /* times its thread blocked */
    uint64_t wakes;    /* times another thread unblocked it */
    unsigned groups,
        unfinished; /* all that were not destroyed, and how many of them have not finished */
};
/* Any thread; each number is of its own moment. */
WEFT_API void weft_dispatcher_stats(weft_dispatcher *dispatcher, struct weft_dispatcher_stats *out);

/* The dispatcher, a line for each group (state, how many fibers it has and how many are ready),
 * then each fiber: its group, what it waits on, and since when, as weft_dump, whose options count.
 * In JSON it is one object with the dump in it. docs/dump.md. Any thread. As weft_dump. */
WEFT_API int weft_dispatcher_dump(weft_dispatcher *dispatcher, FILE *out,
                                  const struct weft_dump_opts *opts);

/* --- groups ------------------------------------------------------------------------ */

struct weft_group_opts {
    const char *name; /* of any length; default "group" */
    /* How many fibers may run in one turn, so that one group cannot hold the round; default
     * 1024. */
    unsigned slice;
    enum weft_on_fatal on_fatal;
};

/* Any thread. -ESHUTDOWN: the dispatcher is stopping. -EAGAIN: it has 65,535 groups. -ENOMEM. */
WEFT_API int weft_group_create(weft_dispatcher *dispatcher, weft_group **out,
                               const struct weft_group_opts *opts);
/* One that has finished, and that nobody uses any more: whoever posts, spawns or asks needs it.
 * Without it, it goes with its dispatcher. */
WEFT_API void weft_group_destroy(weft_group *group);

struct weft_member_opts {
    const char *name;           /* as in weft_fiber_opts */
    size_t stack_bytes;         /* as in weft_fiber_opts; not of a frame fiber */
    unsigned signals_per_round; /* 1 .. 65535; default 1 */
    bool daemon;   /* does not hold the group open: cancelled when the others have ended */
    bool front;    /* starts before the group's fibers that are ready; default: after them */
    bool detached; /* as in weft_fiber_opts */
    bool fp_env;   /* as in weft_fiber_opts; not of a frame fiber */
};

/* Starts fn(arg) in a new fiber of this group, from any thread. It becomes ready at once if the
 * caller is on the dispatcher's thread, else in the next round: at the back of the group's ready
 * fibers, or with `front` before them; of several that are started at the front the last runs
 * first. A start counts as one of the `signals_per_round`. What such a fiber spawns itself by
 * weft_spawn, or in a scope, is of its group too, and a daemon if the spawner is; it starts at the
 * back. Also while the group is stopping. -ESHUTDOWN: it has finished. -EAGAIN, -EINVAL, -ENOMEM as
 * weft_spawn. */
WEFT_API int weft_group_spawn(weft_group *group, weft_fiber *out, weft_fn fn, void *arg,
                              const struct weft_member_opts *opts);

/* Calls fn(arg) in the group, in the next round; at once if the caller is in that group. It must
 * not wait. 0: it was or will be called. -ESHUTDOWN: the group has finished. -ENOMEM. */
WEFT_API int weft_group_post(weft_group *group, void (*fn)(void *arg), void *arg);

/* The same in the caller's memory, which is the group's until fn is called: it cannot lack
 * memory. */
struct weft_post {
    void (*fn)(struct weft_post *post);
    /* private */
    void *weft_private[3];
};
WEFT_API int weft_group_submit(weft_group *group, struct weft_post *post);

/* Asks the group to stop, which is for its fibers to see. It finishes when none is left but
 * daemons, which are cancelled then and run their cleanups, and nothing that was posted; who goes
 * on posting without a pause holds it open. Any thread; more than once. Within the group those who
 * wait for it are woken at once, from elsewhere in the next round. */
WEFT_API void weft_group_stop(weft_group *group);
WEFT_API bool weft_group_is_stopping(const weft_group *group);
/* In a fiber of a group, with a stack (of a frame: weft_frame_await_stop): sleeps until it is asked
 * to stop (0), or until the deadline (-ETIMEDOUT). -ECANCELED, -EINTR. When it is stopping already
 * this yields once, so that a loop around it starves nobody. */
WEFT_API int weft_group_sleep(int64_t deadline);

/* Ends the group by a fatal error: as its `on_fatal` says. In the group. */
WEFT_API void weft_group_fail(int err);

/* Completes when the group has finished, and fails with what weft_group_fail was given. The group's
 * own reference; any thread. */
WEFT_API weft_future *weft_group_finished(weft_group *group);

/* The group whose turn it is on this thread, or NULL. */
WEFT_API weft_group *weft_group_self(void);
WEFT_API weft_dispatcher *weft_group_dispatcher(const weft_group *group);
WEFT_API const char *weft_group_name(const weft_group *group);

/* What a group does, and after weft_group_stop how far it is. */
enum weft_group_state {
    WEFT_GROUP_RUNNING,   /* no fiber of it is ready: all of them wait */
    WEFT_GROUP_READY,     /* it is queued: it has its turn in this round or the next */
    WEFT_GROUP_EXECUTING, /* its turn: its fibers, or functions posted to it, run right now */
    WEFT_GROUP_STOPPING,  /* it was asked to stop; `executing` says whether it has its turn */
    WEFT_GROUP_FINISHED,
};

/* The numbers are as of the end of the group's last turn, and belong together; `state` and
 * `executing` are of the moment of the call. */
struct weft_group_stats {
    enum weft_group_state state;
    bool executing;           /* it has its turn; also of one that is stopping */
    uint64_t turns;           /* it has had */
    uint64_t executed;        /* times that a fiber ran */
    uint64_t fibers, daemons; /* that have not ended */
    uint64_t ready;           /* of all these */
};
/* Fills in *out. Context: any thread, never waits. */
WEFT_API void weft_group_stats(const weft_group *group, struct weft_group_stats *out);
/* Returns the name of the constant: "running", "ready", "executing", "stopping", "finished". */
WEFT_API const char *weft_group_state_name(enum weft_group_state state);
/* As weft_dispatcher_dump, of one group. */
WEFT_API int weft_group_dump(weft_group *group, FILE *out, const struct weft_dump_opts *opts);

WEFT_END_DECLS
#endif
