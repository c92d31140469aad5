#include "actorinfo/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "supervisor/supervisor.h"

/* Append an element, which stays uninitialised; NULL: no memory, and page->err says so. */
static void *add(struct weft__snapshot *snapshot, struct weft__snapshot_array *array, size_t bytes)
{
    if (array->count == array->capacity) {
        size_t capacity = array->capacity ? 2 * array->capacity : 64;
        void *more = weft__alloc_dirty(capacity * bytes);
        if (!more) {
            snapshot->err = -ENOMEM;
            return NULL;
        }
        if (array->count) {
            memcpy(more, array->items, array->count * bytes);
        }
        weft__free(array->items);
        array->items = more;
        array->capacity = capacity;
    }
    return (char *)array->items + bytes * array->count++;
}

static bool collect(const struct weft_actor_info *info, void *arg)
{
    struct weft__snapshot *snapshot = arg;
    if (snapshot->max && snapshot->actors.count == snapshot->max) {
        snapshot->cut++;
        return true;
    }
    struct weft__snapshot_actor *entry = add(snapshot, &snapshot->actors, sizeof *entry);
    if (entry) {
        *entry = (struct weft__snapshot_actor){.info = *info,
                                               .parent = WEFT__SNAPSHOT_NONE,
                                               .child = WEFT__SNAPSHOT_NONE,
                                               .next = WEFT__SNAPSHOT_NONE,
                                               .sup = WEFT__SNAPSHOT_NONE};
    }
    return entry;
}

static int by_id(const void *a, const void *b)
{
    uint64_t left = ((const struct weft__snapshot_actor *)a)->info.pid.id;
    uint64_t right = ((const struct weft__snapshot_actor *)b)->info.pid.id;
    return left < right ? -1 : left > right;
}

static struct weft__snapshot_actor *find(const struct weft__snapshot *snapshot, weft_pid pid)
{
    struct weft__snapshot_actor key = {.info.pid = pid};
    return pid.id && snapshot->actors.count
               ? bsearch(&key, snapshot->actors.items, snapshot->actors.count, sizeof key, by_id)
               : NULL;
}

/* Build the tree of parents and children, from the last actor to the first, so that children end up
 * in order. An actor cannot be spawned by an actor that comes after it, so there are no cycles. */
static void build_tree(struct weft__snapshot *snapshot)
{
    if (snapshot->actors.count) {
        qsort(snapshot->actors.items, snapshot->actors.count, sizeof(struct weft__snapshot_actor),
              by_id);
    }
    for (size_t i = snapshot->actors.count; i-- > 0;) {
        struct weft__snapshot_actor *entry = weft__snapshot_actor_at(snapshot, i),
                                    *parent = find(snapshot, entry->info.parent);
        if (parent) {
            entry->parent = (size_t)(parent - weft__snapshot_actor_at(snapshot, 0));
            entry->next = parent->child;
            parent->child = i;
        }
    }
}

/* --- supervisors ------------------------------------------------------------------------------ */

static int by_number(const void *a, const void *b)
{
    uint64_t left = ((const struct weft__snapshot_absent *)a)->number;
    uint64_t right = ((const struct weft__snapshot_absent *)b)->number;
    return left < right ? -1 : left > right;
}

/* All children of the current supervisor were visited: sort its absent children and remove
 * duplicates. */
static void finish_supervisor(struct weft__snapshot *snapshot)
{
    struct weft__snapshot_supervisor *sup =
        snapshot->sup != WEFT__SNAPSHOT_NONE ? weft__snapshot_supervisor_at(snapshot, snapshot->sup)
                                             : NULL;
    snapshot->sup = WEFT__SNAPSHOT_NONE;
    if (!sup || sup->absent == snapshot->absents.count) {
        return;
    }
    struct weft__snapshot_absent *first = weft__snapshot_absent_at(snapshot, sup->absent);
    size_t count = snapshot->absents.count - sup->absent, kept = 1;
    qsort(first, count, sizeof *first, by_number);
    for (size_t i = 1; i < count; i++) {
        if (first[i].number != first[kept - 1].number) {
            first[kept++] = first[i];
        }
    }
    sup->absents = kept;
    snapshot->absents.count = sup->absent + kept;
}

static void add_supervisor(weft_pid supervisor, const struct weft__supervisor_info *info, void *arg)
{
    struct weft__snapshot *snapshot = arg;
    finish_supervisor(snapshot);
    struct weft__snapshot_actor *entry = find(snapshot, supervisor);
    struct weft__snapshot_supervisor *sup =
        entry ? add(snapshot, &snapshot->sups, sizeof *sup) : NULL;
    if (sup) {
        *sup = (struct weft__snapshot_supervisor){.info = *info, .absent = snapshot->absents.count};
        entry->sup = snapshot->sup = snapshot->sups.count - 1;
    }
}

static void add_absent(struct weft__snapshot *snapshot, const struct weft__visited_child *visited)
{
    if (snapshot->sup == WEFT__SNAPSHOT_NONE ||
        (snapshot->max && snapshot->absents.count == snapshot->max)) {
        return;
    }
    struct weft__snapshot_absent *absent = add(snapshot, &snapshot->absents, sizeof *absent);
    if (absent) {
        *absent = (struct weft__snapshot_absent){
            .number = visited->number, .child_info = visited->child_info, .error = visited->error};
    }
}

static void add_child(const struct weft__visited_child *visited, void *arg)
{
    struct weft__snapshot *snapshot = arg;
    struct weft__snapshot_actor *entry = find(snapshot, visited->pid);
    if (weft_pid_is_none(visited->pid)) {
        add_absent(snapshot, visited);
    } else if (entry) {
        entry->child_info = visited->child_info;
    }
}

/* --- snapshot --------------------------------------------------------------------------------- */

void weft__snapshot_fill(struct weft__snapshot *snapshot, weft_host *host)
{
    snapshot->actors.count = snapshot->sups.count = snapshot->absents.count = snapshot->cut = 0;
    snapshot->sup = WEFT__SNAPSHOT_NONE;
    weft_actor_each(host, collect, snapshot);
    build_tree(snapshot);
    weft__supervisors_visit(
        host, &(struct weft__supervisor_visitor){
                  .supervisor_info = add_supervisor, .child_info = add_child, .arg = snapshot});
    finish_supervisor(snapshot);
}

void weft__snapshot_free(struct weft__snapshot *snapshot)
{
    weft__free(snapshot->actors.items);
    weft__free(snapshot->sups.items);
    weft__free(snapshot->absents.items);
}
