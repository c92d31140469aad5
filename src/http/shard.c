#include "http/shard.h"

#include <string.h>
#include <time.h>

#define NS_PER_S 1000000000
#define MS(n) ((n)*INT64_C(1000000))
#define US(n) ((n)*INT64_C(1000))

const int64_t weft_http_buckets[WEFT_HTTP_BUCKETS] = {
    US(50), US(100), US(250), US(500), MS(1),    MS(2) + US(500), MS(5),    MS(10),    MS(25),
    MS(50), MS(100), MS(250), MS(500), MS(1000), MS(2500),        MS(5000), MS(10000), WEFT_FOREVER,
};

void weft__http_shard_init(struct weft__http_shard *shard)
{
    memset(shard, 0, sizeof *shard);
    memcpy(shard->date, "Date: ", 6);
    memcpy(shard->date + 6 + WEFT_HTTP_DATE_BYTES, "\r\n", 2);
}

void weft__http_shard_date_update(struct weft__http_shard *shard, int64_t now)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    weft_http_date_format(shard->date + 6, wall.tv_sec);
    shard->seconds = wall.tv_sec;
    shard->date_until = now + NS_PER_S - wall.tv_nsec;
}

void weft__http_shard_add_duration(struct weft__http_shard *shard, int64_t ns, unsigned count)
{
    int bucket = 0;
    while (ns > weft_http_buckets[bucket]) {
        bucket++;
    }
    weft__http_count(shard, WEFT__HTTP_N_DURATION + bucket, count);
    weft__http_count(shard, WEFT__HTTP_N_DURATION_NS, (uint64_t)ns * count);
}
