/* Topics that came from outside: one copy of each, for ever. As many as a peer can make us keep are bounded. */
#include <string.h>

#include <weft/route.h>

#include "base/alloc.h"
#include "base/lock.h"

#define BUCKETS 4096u
#define MOST_TOPICS 65536u

struct topic {
    struct topic *next;
    uint32_t hash;
    char text[];
};

static struct weft__lock lock;
/* under it */
static struct topic *buckets[BUCKETS];
static size_t topics;

static uint32_t hash_of(const char *text)
{
    uint32_t hash = 2166136261u;
    for (; *text; text++) {
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    }
    return hash;
}

static const char *find_locked(const char *text, uint32_t hash)
{
    const struct topic *topic = buckets[hash % BUCKETS];
    while (topic && (topic->hash != hash || strcmp(topic->text, text) != 0)) {
        topic = topic->next;
    }
    return topic ? topic->text : NULL;
}

static const char *add_locked(const char *text, uint32_t hash)
{
    size_t size = strlen(text) + 1;
    struct topic *topic = topics < MOST_TOPICS ? weft__alloc(sizeof *topic + size) : NULL;
    if (!topic) {
        return NULL;
    }
    topic->hash = hash;
    memcpy(topic->text, text, size);
    topic->next = buckets[hash % BUCKETS];
    buckets[hash % BUCKETS] = topic;
    topics++;
    return topic->text;
}

const char *weft_topic(const char *text)
{
    uint32_t hash = hash_of(text);
    weft__lock(&lock);
    const char *known = find_locked(text, hash);
    known = known ? known : add_locked(text, hash);
    weft__unlock(&lock);
    return known;
}
