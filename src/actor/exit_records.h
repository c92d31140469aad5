/* Exit records of actors that have not been joined yet: actor/exit_records.c. */
#ifndef WEFT_ACTOR_EXIT_RECORDS_H
#define WEFT_ACTOR_EXIT_RECORDS_H

#include <weft/actor.h>

#include "lock/lock.h"

struct weft__exit_record {
    uint64_t id; /* of the PID; 0: free, or already taken */
    weft_buf *result;
    int error;
    uint32_t next; /* index of the next record in the chain, + 1 */
};

/* Of one host. Zero-initialised memory with `capacity` set is an empty table. */
struct weft__exit_records {
    struct weft__lock lock;
    /* under the lock */
    uint32_t capacity, at; /* records kept; where the next one goes */
    struct weft__exit_record *ring;
    uint32_t *chains; /* by slot: index of the first record, + 1 */
};

void weft__exit_records_init(struct weft__exit_records *exits, uint32_t capacity);
/* Add a record. Takes `result`, which may be NULL. The oldest record is discarded; without memory
 * this one is. Under the actor's lock. */
void weft__exit_records_add(struct weft__exit_records *exits, weft_pid pid, int error,
                            weft_buf *result);
/* Returns the error the actor exited with, and *result, owned. -ESRCH: there is no record, or it
 * was discarded. */
int weft__exit_records_take(struct weft__exit_records *exits, weft_pid pid, weft_buf **result);
/* For a host that is being destroyed. */
void weft__exit_records_free(struct weft__exit_records *exits);

#endif
