/* The topic table: topics from outside the program, interned for ever. The number of topics that a
 * peer can make this process keep is limited. */
#include <string.h>

#include <weft/route.h>

#include "actor/actor.h"
#include "actor/literal.h"
#include "base/alloc.h"

#define MOST_TOPICS 65536u

struct topic {
    struct weft__entry entry; /* first */
    char text[];
};

static struct weft__table topics;

static const struct weft__entry *add_locked(const char *text)
{
    size_t size = strlen(text) + 1;
    if (topics.count == MOST_TOPICS || !weft__table_grow(&topics)) {
        return NULL;
    }
    struct topic *topic = weft__alloc(sizeof *topic + size);
    if (!topic) {
        return NULL;
    }
    memcpy(topic->text, text, size);
    topic->entry.key = topic->text;
    weft__table_add(&topics, &topic->entry);
    return &topic->entry;
}

const char *weft_topic(const char *text)
{
    weft__lock(&topics.lock);
    const struct weft__entry *known = weft__table_find(&topics, text);
    known = known ? known : add_locked(text);
    weft__unlock(&topics.lock);
    return known ? known->key : NULL;
}

int weft__topic_is_known(const char *topic)
{
    weft__lock(&topics.lock);
    const struct weft__entry *known = weft__table_find(&topics, topic);
    weft__unlock(&topics.lock);
    return known && known->key == topic;
}
