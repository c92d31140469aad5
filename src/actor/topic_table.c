/* The topic table: topics from outside the program, interned for ever. The number of topics that a
 * peer can make this process keep is limited. */
#include <string.h>

#include <weft/remote.h>

#include "actor/actor.h"
#include "actor/topic_check.h"
#include "base/alloc.h"

#define MAX_TOPICS 65536u

struct topic {
    struct weft__string_table_entry entry; /* first */
    char text[];
};

static struct weft__string_table topics;

static const struct weft__string_table_entry *add_locked(const char *text)
{
    size_t size = strlen(text) + 1;
    if (topics.count == MAX_TOPICS || !weft__string_table_grow(&topics)) {
        return NULL;
    }
    struct topic *topic = weft__alloc(sizeof *topic + size);
    if (!topic) {
        return NULL;
    }
    memcpy(topic->text, text, size);
    topic->entry.key = topic->text;
    weft__string_table_add(&topics, &topic->entry);
    return &topic->entry;
}

const char *weft_topic_intern(const char *text)
{
    weft__lock(&topics.lock);
    const struct weft__string_table_entry *known = weft__string_table_find(&topics, text);
    known = known ? known : add_locked(text);
    weft__unlock(&topics.lock);
    return known ? known->key : NULL;
}

int weft__topic_is_interned(const char *topic)
{
    weft__lock(&topics.lock);
    const struct weft__string_table_entry *known = weft__string_table_find(&topics, topic);
    weft__unlock(&topics.lock);
    return known && known->key == topic;
}
