/* Topics are borrowed for ever: literals, other static storage, or what weft_topic has given. A
 * topic that is none of these would be read when it is gone, so who sends one is told at once. What
 * lies in the image of the program passes by one comparison. */
#ifndef WEFT_ACTOR_LITERAL_H
#define WEFT_ACTOR_LITERAL_H

#include <stdint.h>

/* The program's image; 0 until there is a host. */
extern struct weft__image {
    uintptr_t first, bytes;
} weft__image;

/* Before the first actor. */
void weft__image_find(void);
/* Of another module, or from weft_topic, or NULL; else it is a caller's bug. */
void weft__topic_require(const char *topic);
/* Is it one that weft_topic has given? */
int weft__topic_is_known(const char *topic);

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
