/* Storage for records of one size that may live long, and of which there may be many: chunks of
 * 64 KiB that hold nothing else. In the common heap each of them would keep a page that short-lived
 * buffers around it have left. A chunk goes back to the kernel when its last record is freed, except
 * for one that is kept.
 *
 *   chunk:  | header | record | record | ...        aligned to its size: a record finds its header
 */
#ifndef WEFT_SERVER_RECORD_SLAB_H
#define WEFT_SERVER_RECORD_SLAB_H

#include <stddef.h>

#include "lock/lock.h"

struct weft__record_chunk;

struct weft__record_slab {
    struct weft__lock lock;
    size_t bytes; /* of a record */
    /* Chunks with a free record; under the lock. Full ones are in no list. */
    struct weft__record_chunk *open;
    struct weft__record_chunk *empty; /* the one that is kept, or NULL */
};

/* bytes: at most 4096. */
void weft__record_slab_init(struct weft__record_slab *slab, size_t bytes);
/* All records have been freed. */
void weft__record_slab_deinit(struct weft__record_slab *slab);
/* Zeroed; NULL without memory. Any thread. */
void *weft__record_alloc(struct weft__record_slab *slab);
void weft__record_free(struct weft__record_slab *slab, void *record);

#endif
