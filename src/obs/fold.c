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

static uint64_t hash_of(const struct weft__fiber_snapshot *snap)
{
    uint64_t hash = mix(snap->state, snap->unreadable);
    hash = mix(mix(hash, (uintptr_t)snap->waits), (uintptr_t)snap->no_frames);
    for (int i = 0; i < snap->frames; i++) {
        hash = mix(hash, (uintptr_t)snap->pcs[i]);
    }
    return hash;
}

static bool same(const struct weft__fold_group *group, const struct weft__fiber_snapshot *snap)
{
    return group->state == snap->state && group->unreadable == snap->unreadable &&
           group->waits == snap->waits && group->no_frames == snap->no_frames &&
           group->describe == snap->describe && group->frames == snap->frames &&
           memcmp(group->pcs, snap->pcs, (size_t)snap->frames * sizeof *snap->pcs) == 0;
}

static unsigned list_of(const struct weft__fiber_snapshot *snap)
{
    return snap->unreadable ? WEFT__FOLD_STATES - 1 : (unsigned)snap->state;
}

static struct weft__fold_group *group_of(struct weft__fold *fold,
                                         const struct weft__fiber_snapshot *snap)
{
    uint64_t hash = hash_of(snap);
    struct weft__fold_group *group = fold->hashed[hash % BUCKETS];
    while (group && !(group->hash == hash && same(group, snap))) {
        group = group->next_hashed;
    }
    if (group) {
        return group;
    }
    size_t pcs = (size_t)snap->frames * sizeof *snap->pcs;
    group = take(fold, sizeof *group + pcs);
    if (!group) {
        return NULL;
    }
    *group = (struct weft__fold_group){
        .next_hashed = fold->hashed[hash % BUCKETS],
        .hash = hash,
        .state = snap->state,
        .unreadable = snap->unreadable,
        .waits = snap->waits,
        .no_frames = snap->no_frames,
        .describe = snap->describe,
        .frames = snap->frames,
    };
    memcpy(group->pcs, snap->pcs, pcs);
    fold->hashed[hash % BUCKETS] = group;
    unsigned list = list_of(snap);
    *(fold->last[list] ? &fold->last[list]->next : &fold->first[list]) = group;
    fold->last[list] = group;
    fold->groups++;
    return group;
}

void weft__fold_add(struct weft__fold *fold, const struct weft__fiber_snapshot *snap)
{
    fold->fibers[list_of(snap)]++;
    struct weft__fold_group *group = group_of(fold, snap);
    if (!group) {
        fold->lost++;
        return;
    }
    group->count++;
    size_t kept =
        offsetof(struct weft__fold_member, snap) + offsetof(struct weft__fiber_snapshot, no_frames);
    struct weft__fold_member *one = group->shown < fold->max_shown ? take(fold, kept) : NULL;
    if (one) {
        one->next = NULL;
        memcpy(&one->snap, snap, offsetof(struct weft__fiber_snapshot, no_frames));
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
