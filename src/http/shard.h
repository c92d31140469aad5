/* The state of one worker: its counters of requests, and the Date line.
 *
 * Counters are written only by the fibers of one worker, which are bound to it; any thread may read
 * them.
 */
#ifndef WEFT_HTTP_SHARD_H
#define WEFT_HTTP_SHARD_H

#include <stdalign.h>
#include <stdint.h>

#include <weft/http.h>
#include <weft/http_parse.h>

#include "base/atomic.h"

enum weft__http_counter {
    WEFT__HTTP_N_REQUESTS,
    WEFT__HTTP_N_CLASS, /* six of them */
    WEFT__HTTP_N_BYTES_IN = WEFT__HTTP_N_CLASS + 6,
    WEFT__HTTP_N_BYTES_OUT,
    WEFT__HTTP_N_BAD_REQUESTS,
    WEFT__HTTP_N_FLUSHES,
    WEFT__HTTP_N_DURATION_NS,
    WEFT__HTTP_N_DURATION, /* one per bucket */
    WEFT__HTTP_COUNTERS = WEFT__HTTP_N_DURATION + WEFT_HTTP_BUCKETS,
};

/* "Date: ", the date, CR LF */
#define WEFT__HTTP_DATE_LINE (6 + WEFT_HTTP_DATE_BYTES + 2)

struct weft__http_shard {
    /* The worker only. */
    alignas(64) char date[WEFT__HTTP_DATE_LINE + 1];
    int64_t date_until; /* in the time of weft_now: the text is valid before that */
    int64_t seconds;    /* wall clock at the same moment */

    /* Any thread. */
    alignas(64) _Atomic(uint64_t) n[WEFT__HTTP_COUNTERS];
};

static inline void weft__http_count(struct weft__http_shard *shard, int counter, uint64_t by)
{
    uint64_t now = atomic_load_explicit(&shard->n[counter], memory_order_relaxed);
    atomic_store_explicit(&shard->n[counter], now + by, memory_order_relaxed);
}

void weft__http_shard_init(struct weft__http_shard *shard);
/* Adds `count` requests that took `ns` each to the histogram. */
void weft__http_shard_add_duration(struct weft__http_shard *shard, int64_t ns, unsigned count);
void weft__http_shard_date_update(struct weft__http_shard *shard, int64_t now);

/* Returns the Date line as of `now`, WEFT__HTTP_DATE_LINE bytes. */
static inline const char *weft__http_shard_date(struct weft__http_shard *shard, int64_t now)
{
    if (now >= shard->date_until) {
        weft__http_shard_date_update(shard, now);
    }
    return shard->date;
}

#endif
