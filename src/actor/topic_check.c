#include "actor/topic_check.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "lock/lock.h"

#define VERIFIED 256u

struct weft__image weft__image;

/* Addresses that were verified before, so that the modules are searched only once for each. */
static _Atomic(const char *) verified[VERIFIED];

static struct weft__image image_of(const struct dl_phdr_info *info)
{
    uintptr_t first = UINTPTR_MAX, last = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD) {
            uintptr_t at = info->dlpi_addr + part->p_vaddr;
            first = at < first ? at : first;
            last = at + part->p_memsz > last ? at + part->p_memsz : last;
        }
    }
    return (struct weft__image){.first = first, .bytes = last > first ? last - first : 0};
}

/* The first module is the main program. */
static int take_first(struct dl_phdr_info *info, size_t size, void *out)
{
    (void)size;
    *(struct weft__image *)out = image_of(info);
    return 1;
}

void weft__image_find(void)
{
    static struct weft__lock lock;
    weft__lock(&lock);
    if (!weft__image.bytes) {
        dl_iterate_phdr(take_first, &weft__image);
    }
    weft__unlock(&lock);
}

static int is_in_module(struct dl_phdr_info *info, size_t size, void *topic)
{
    struct weft__image image = image_of(info);
    (void)size;
    return (uintptr_t)topic - image.first < image.bytes;
}

void weft__topic_require(const char *topic)
{
    _Atomic(const char *) *place = &verified[((uintptr_t)topic >> 3) % VERIFIED];
    if (!topic || atomic_load_explicit(place, memory_order_relaxed) == topic) {
        return;
    }
    bool is_static =
        dl_iterate_phdr(is_in_module, (void *)(uintptr_t)topic) || weft__topic_is_interned(topic);
    WEFT__REQUIRE(is_static,
                  "the topic \"%.64s\" is not in static memory, but Weft keeps topic pointers for "
                  "ever: pass a literal, or weft_topic_intern(text)",
                  topic);
    atomic_store_explicit(place, topic, memory_order_relaxed);
}
