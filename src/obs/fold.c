#include "obs/fold.h"

#include <stdalign.h>
#include <string.h>

#include "base/alloc.h"

#define CHUNK_BYTES ((size_t)256 * 1024)
#define BUCKETS (sizeof((struct weft__fold *)0)->hashed / sizeof(struct weft__fold_group *))

struct weft__fold_chunk {
    struct weft__fold_chunk *older;
    size_t used;
    alignas(16) char bytes[];
};

static void *take(struct weft__fold *fold, size_t bytes)
{
    struct weft__fold_chunk *chunk = fold->chunks;
    bytes = (bytes + 15) & ~(size_t)15;
    if (!chunk || CHUNK_BYTES - sizeof *chunk - chunk->used < bytes) {
        chunk = weft__map(CHUNK_BYTES);
        if (!chunk) {
            return NULL;
        }
        chunk->older = fold->chunks;
        fold->chunks = chunk;
    }
    void *memory = chunk->bytes + chunk->used;
    chunk->used += bytes;
    return memory;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const struct weft__view *view)
{
    uint64_t hash = mix(view->state, view->unreadable);
    hash = mix(mix(hash, (uintptr_t)view->waits), (uintptr_t)view->no_frames);
    for (int i = 0; i < view->frames; i++) {
        hash = mix(hash, (uintptr_t)view->pcs[i]);
    }
    return hash;
}

static bool same(const struct weft__fold_group *group, const struct weft__view *view)
{
    return group->state == view->state && group->unreadable == view->unreadable &&
           group->waits == view->waits && group->no_frames == view->no_frames &&
           group->describe == view->describe && group->frames == view->frames &&
           memcmp(group->pcs, view->pcs, (size_t)view->frames * sizeof *view->pcs) == 0;
}

static unsigned list_of(const struct weft__view *view)
{
    return view->unreadable ? WEFT__FOLD_STATES - 1 : (unsigned)view->state;
}

static struct weft__fold_group *group_of(struct weft__fold *fold, const struct weft__view *view)
{
    uint64_t hash = hash_of(view);
    struct weft__fold_group *group = fold->hashed[hash % BUCKETS];
    while (group && !(group->hash == hash && same(group, view))) {
        group = group->next_hashed;
    }
    if (group) {
        return group;
    }
    size_t pcs = (size_t)view->frames * sizeof *view->pcs;
    group = take(fold, sizeof *group + pcs);
    if (!group) {
        return NULL;
    }
    *group = (struct weft__fold_group){
        .next_hashed = fold->hashed[hash % BUCKETS],
        .hash = hash,
        .state = view->state,
        .unreadable = view->unreadable,
        .waits = view->waits,
        .no_frames = view->no_frames,
        .describe = view->describe,
        .frames = view->frames,
    };
    memcpy(group->pcs, view->pcs, pcs);
    fold->hashed[hash % BUCKETS] = group;
    unsigned list = list_of(view);
    *(fold->last[list] ? &fold->last[list]->next : &fold->first[list]) = group;
    fold->last[list] = group;
    fold->groups++;
    return group;
}

void weft__fold_add(struct weft__fold *fold, const struct weft__view *view)
{
    fold->fibers[list_of(view)]++;
    struct weft__fold_group *group = group_of(fold, view);
    if (!group) {
        fold->lost++;
        return;
    }
    group->count++;
    size_t kept = offsetof(struct weft__folded, view) + offsetof(struct weft__view, no_frames);
    struct weft__folded *one = group->shown < fold->max_shown ? take(fold, kept) : NULL;
    if (one) {
        one->next = NULL;
        memcpy(&one->view, view, offsetof(struct weft__view, no_frames));
        *(group->last ? &group->last->next : &group->first) = one;
        group->last = one;
        group->shown++;
    }
}

void weft__fold_deinit(struct weft__fold *fold)
{
    while (fold->chunks) {
        struct weft__fold_chunk *chunk = fold->chunks;
        fold->chunks = chunk->older;
        weft__unmap(chunk, CHUNK_BYTES);
    }
}
