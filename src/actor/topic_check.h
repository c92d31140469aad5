/* The check of topic pointers. Topics are borrowed for ever: literals, other static storage, or
 * results of weft_topic_intern. Any other pointer might be read after its memory is gone, so
 * sending it is reported at once. Pointers into the main program's image take one comparison. */
#ifndef WEFT_ACTOR_TOPIC_CHECK_H
#define WEFT_ACTOR_TOPIC_CHECK_H

#include <stdint.h>

/* The main program's image; 0 until a host was created. */
extern struct weft__image {
    uintptr_t first, bytes;
} weft__image;

/* Called before the first actor. */
void weft__image_find(void);
/* Accept a topic in another module, from weft_topic_intern, or NULL; anything else is a caller's
 * bug. */
void weft__topic_require(const char *topic);
/* Is this a result of weft_topic_intern? */
int weft__topic_is_interned(const char *topic);

static inline void weft__topic_check(const char *topic)
{
#ifndef WEFT_EXPLORE
    if (__builtin_expect((uintptr_t)topic - weft__image.first >= weft__image.bytes, 0)) {
        weft__topic_require(topic);
    }
#else
    (void)topic;
#endif
}

#endif
