/* Declarations that the explorer's files share. Reading order: explore.h, explore_thread.c
 * (coroutines, scheduling, futex), explore_memory.c (the memory model), explore_ahead.c (late
 * loads), explore_race.c (plain memory), explore_search.c (which choice next), explore_main.c
 * (command line, reports, traces).
 *
 * Everything here is reset for each execution, except the search. */
#ifndef WEFT_TEST_MODEL_EXPLORE_INTERNAL_H
#define WEFT_TEST_MODEL_EXPLORE_INTERNAL_H

#include "model/explore.h"

#define MAIN X_THREADS          /* index of the thread that runs setup and check */
#define SEQ_CST (X_THREADS + 1) /* index of the clock of seq_cst stores */
#define CLOCKS 8
#define LOCATIONS 160 /* most atomic locations in one execution */
#define STORES 256    /* most stores to one location */
#define STEPS 4000    /* most operations in one execution; more is reported as a livelock */
#define SPIN_READS 16 /* locations that one turn of a busy loop may read */

/* How far a thread has seen: events of each thread (happens-before), stores of each location. The
 * last clock counts the seq_cst stores of all threads: their place in the one total order. */
struct view {
    int16_t clock[CLOCKS];
    int16_t seen[LOCATIONS];
};

struct message {
    uint64_t value;
    uint64_t id;             /* which event of which thread stored it; 0: initial value */
    const struct view *view; /* what an acquire load takes over; NULL: nothing */
    int16_t sc;              /* its place among all seq_cst stores; 0: not seq_cst */
};

struct location {
    uintptr_t at;
    int bytes;
    int index;
    int count;                             /* stores so far, including the first one */
    int16_t reads[CLOCKS], writes[CLOCKS]; /* last atomic access of each thread, as its clock */
    struct message stores[STORES];
};

enum status { NEW, READY, SLEEPING, SPINNING, ENDED };

struct thread {
    int index;
    enum status status;
    void *stack_pointer;
    struct view view;
    int events; /* = view.clock[index] */
    /* SLEEPING */
    uint32_t *sleeps_on;
    bool timed, woken;
    uint64_t wait_id, waker_id;
    /* the locations read in the current turn of a busy loop, and whether it coasts: see x_spin */
    struct {
        struct location *location;
        int store;
    } turn[SPIN_READS];
    int turn_reads, coasted;
    bool coasting;
    int priority; /* PCT */
};

/* How an execution ended. */
enum result { RUNNING, COMPLETE, PRUNED, FAILED };

/* ---- explore_thread.c ---- */
extern struct thread threads[X_THREADS + 1], *self;
extern uint64_t graph_hash; /* hash of reads-from and modification order so far: the state */
extern char failure[512];
enum result run_execution(const struct x_client *client);
void scheduling_point(void);
/* A new event of this thread; returns its id. */
uint64_t event_begin(void);
/* Adds an event to the state. */
void event_end(uint64_t id, int kind, uintptr_t at, uint64_t read_from, uint64_t after);
void end_execution(enum result result) __attribute__((noreturn));
bool spend_spurious(void);
extern int stale_reads;
bool may_read_stale(void);

/* ---- explore_memory.c ---- */
void memory_reset(void);
void view_join(struct view *into, const struct view *from);
struct location *location_of(const void *at, int bytes, bool write);
/* Has a location that this turn of the busy loop read changed since? */
bool turn_is_stale(const struct thread *thread);
void turn_refresh(struct thread *thread);
const struct message *read_newest(struct thread *thread, struct location *location);

/* ---- explore_ahead.c ---- */
void ahead_start(void); /* for a client: collects from now on */
void ahead_guess(void); /* ... and uses what was collected */
void ahead_reset(void);
/* How many values a relaxed load could read ahead, and the read of the k-th of them. */
int ahead_candidates(uintptr_t at);
uint64_t ahead_read(const struct location *location, int k);
void ahead_access(const struct location *location);
void ahead_stored(struct location *location, uint64_t value);
/* True: it is not known yet whether the failure is real; the caller continues, or ends its
 * thread. */
bool ahead_keep_back(const char *message);
void ahead_end(void); /* all threads have ended */

/* ---- explore_race.c ---- */
void race_reset(void);
void race_end(void); /* leaks */
/* The location at this address, or NULL; checks the access against plain ones. */
struct location *race_atomic(uintptr_t at, int bytes, bool write);
void race_new_location(struct location *location);

/* ---- explore_search.c ---- */
enum strategy { EXHAUSTIVE, RANDOM, PCT, REPLAY };
struct search {
    enum strategy strategy;
    uint64_t seed;
    long complete, pruned;
    size_t states; /* distinct states met */
    size_t graphs; /* distinct states at the end of an execution */
    int depth;     /* longest sequence of choices */
};
extern struct search search;
extern bool search_prunes; /* an execution ends at a state that was met before */
void search_start(enum strategy strategy, uint64_t seed);
void search_script(const char *choices); /* replays a printed string */
void search_begin_execution(void);
void search_completed(void); /* this execution ran to its end */
/* Prepares the next execution. False: there is none. */
bool search_next(void);
/* A choice among n; at most 36. */
int search_choose(int n);
/* Which of the n enabled threads continues; the first is the current one if it is enabled. */
int search_schedule(struct thread *const *enabled, int n, uint64_t state);
/* Choices so far, as a string. */
const char *search_string(void);

/* ---- explore_main.c ---- */
extern bool tracing;
void trace_line(const struct x_site *site, const void *at, const char *operation,
                const char *format, ...) __attribute__((format(printf, 4, 5)));
#define trace(...) (tracing ? trace_line(__VA_ARGS__) : (void)0)
const char *order_name(memory_order order);
const char *value_text(uint64_t value);
const char *memory_name(uintptr_t at);
void trace_names_reset(void);

#endif
