/* Exit records for joins that come after the exit.
 *
 * An exit that no join waited for, if it has an error or a result, is recorded by the host: the
 * last so many of them, in a ring, and in hash chains by the slot of the PID. The record is made
 * before the actor is gone (under its lock: host/actor_exit.c), so a join that finds no actor
 * finds its record.
 */
#include "actor/exit_records.h"

#include <errno.h>

#include "base/alloc.h"

/* The hash chain for this PID. Under the lock. */
static uint32_t *chain_of(struct weft__exit_records *exits, uint64_t id)
{
    return &exits->chains[(uint32_t)id % exits->capacity];
}

static void remove_from_chain(struct weft__exit_records *exits, struct weft__exit_record *exit)
{
    uint32_t number = (uint32_t)(exit - exits->ring) + 1;
    uint32_t *at = chain_of(exits, exit->id);
    while (*at != number) {
        at = &exits->ring[*at - 1].next;
    }
    *at = exit->next;
    exit->id = 0;
}

/* Allocated with the first record. */
static bool allocate_locked(struct weft__exit_records *exits)
{
    if (!exits->ring) {
        exits->ring = weft__alloc(exits->capacity * sizeof *exits->ring);
        exits->chains = weft__alloc(exits->capacity * sizeof *exits->chains);
    }
    if (!exits->ring || !exits->chains) {
        weft__free(exits->ring);
        weft__free(exits->chains);
        exits->ring = NULL;
        exits->chains = NULL;
    }
    return exits->ring != NULL;
}

void weft__exit_records_init(struct weft__exit_records *exits, uint32_t capacity)
{
    exits->capacity = capacity;
    exits->at = 0;
}

void weft__exit_records_add(struct weft__exit_records *exits, weft_pid pid, int error,
                            weft_buf *result)
{
    weft_buf *oldest = result;
    weft__lock(&exits->lock);
    if (allocate_locked(exits)) {
        struct weft__exit_record *exit = &exits->ring[exits->at];
        exits->at = (exits->at + 1) % exits->capacity;
        oldest = NULL;
        if (exit->id) {
            oldest = exit->result;
            remove_from_chain(exits, exit);
        }
        uint32_t *chain = chain_of(exits, pid.id);
        *exit = (struct weft__exit_record){
            .id = pid.id, .result = result, .error = error, .next = *chain};
        *chain = (uint32_t)(exit - exits->ring) + 1;
    }
    weft__unlock(&exits->lock);
    weft_buf_free(oldest);
}

int weft__exit_records_take(struct weft__exit_records *exits, weft_pid pid, weft_buf **result)
{
    int error = -ESRCH;
    *result = NULL;
    weft__lock(&exits->lock);
    uint32_t number = exits->ring ? *chain_of(exits, pid.id) : 0;
    while (number && exits->ring[number - 1].id != pid.id) {
        number = exits->ring[number - 1].next;
    }
    if (number) {
        struct weft__exit_record *exit = &exits->ring[number - 1];
        error = exit->error;
        *result = exit->result;
        remove_from_chain(exits, exit);
    }
    weft__unlock(&exits->lock);
    return error;
}

void weft__exit_records_free(struct weft__exit_records *exits)
{
    weft__lock(&exits->lock);
    struct weft__exit_record *ring = exits->ring;
    uint32_t *chains = exits->chains;
    exits->ring = NULL;
    exits->chains = NULL;
    weft__unlock(&exits->lock);
    for (uint32_t i = 0; ring && i < exits->capacity; i++) {
        if (ring[i].id) {
            weft_buf_free(ring[i].result);
        }
    }
    weft__free(ring);
    weft__free(chains);
}
