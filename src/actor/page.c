#include "actor/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "actor/supervisor.h"
#include "base/alloc.h"

/* Append an element, which stays uninitialised; NULL: no memory, and page->err says so. */
static void *add(struct weft__page *page, struct weft__heap *heap, size_t bytes)
{
    if (heap->count == heap->room) {
        size_t room = heap->room ? 2 * heap->room : 64;
        void *more = weft__alloc_dirty(room * bytes);
        if (!more) {
            page->err = -ENOMEM;
            return NULL;
        }
        if (heap->count) {
            memcpy(more, heap->items, heap->count * bytes);
        }
        weft__free(heap->items);
        heap->items = more;
        heap->room = room;
    }
    return (char *)heap->items + bytes * heap->count++;
}

static bool collect(const struct weft_actor_info *info, void *arg)
{
    struct weft__page *page = arg;
    if (page->max && page->leaves.count == page->max) {
        page->cut++;
        return true;
    }
    struct weft__leaf *leaf = add(page, &page->leaves, sizeof *leaf);
    if (leaf) {
        *leaf = (struct weft__leaf){.info = *info,
                                    .parent = WEFT__NOBODY,
                                    .child = WEFT__NOBODY,
                                    .next = WEFT__NOBODY,
                                    .branch = WEFT__NOBODY};
    }
    return leaf;
}

static int by_id(const void *a, const void *b)
{
    uint64_t left = ((const struct weft__leaf *)a)->info.pid.id;
    uint64_t right = ((const struct weft__leaf *)b)->info.pid.id;
    return left < right ? -1 : left > right;
}

static struct weft__leaf *find(const struct weft__page *page, weft_pid pid)
{
    struct weft__leaf key = {.info.pid = pid};
    return pid.id && page->leaves.count
               ? bsearch(&key, page->leaves.items, page->leaves.count, sizeof key, by_id)
               : NULL;
}

/* Build the tree of parents and children, from the last actor to the first, so that children end up
 * in order. An actor cannot be spawned by an actor that comes after it, so there are no cycles. */
static void plant(struct weft__page *page)
{
    if (page->leaves.count) {
        qsort(page->leaves.items, page->leaves.count, sizeof(struct weft__leaf), by_id);
    }
    for (size_t i = page->leaves.count; i-- > 0;) {
        struct weft__leaf *leaf = weft__leaf_at(page, i), *parent = find(page, leaf->info.parent);
        if (parent) {
            leaf->parent = (size_t)(parent - weft__leaf_at(page, 0));
            leaf->next = parent->child;
            parent->child = i;
        }
    }
}

/* --- supervisors ------------------------------------------------------------------------------ */

static int by_number(const void *a, const void *b)
{
    uint64_t left = ((const struct weft__absent *)a)->number;
    uint64_t right = ((const struct weft__absent *)b)->number;
    return left < right ? -1 : left > right;
}

/* All children of the current supervisor were visited: sort its absent children and remove
 * duplicates. */
static void close_branch(struct weft__page *page)
{
    struct weft__branch *branch =
        page->branch != WEFT__NOBODY ? weft__branch_at(page, page->branch) : NULL;
    page->branch = WEFT__NOBODY;
    if (!branch || branch->absent == page->absents.count) {
        return;
    }
    struct weft__absent *first = weft__absent_at(page, branch->absent);
    size_t count = page->absents.count - branch->absent, kept = 1;
    qsort(first, count, sizeof *first, by_number);
    for (size_t i = 1; i < count; i++) {
        if (first[i].number != first[kept - 1].number) {
            first[kept++] = first[i];
        }
    }
    branch->absents = kept;
    page->absents.count = branch->absent + kept;
}

static void note_team(weft_pid supervisor, const struct weft__team *is, void *arg)
{
    struct weft__page *page = arg;
    close_branch(page);
    struct weft__leaf *leaf = find(page, supervisor);
    struct weft__branch *branch = leaf ? add(page, &page->branches, sizeof *branch) : NULL;
    if (branch) {
        *branch = (struct weft__branch){.is = *is, .absent = page->absents.count};
        leaf->branch = page->branch = page->branches.count - 1;
    }
}

static void note_absent(struct weft__page *page, const struct weft__sitter *sitter)
{
    if (page->branch == WEFT__NOBODY || (page->max && page->absents.count == page->max)) {
        return;
    }
    struct weft__absent *absent = add(page, &page->absents, sizeof *absent);
    if (absent) {
        *absent = (struct weft__absent){
            .number = sitter->number, .seat = sitter->seat, .error = sitter->error};
    }
}

static void note_seat(const struct weft__sitter *sitter, void *arg)
{
    struct weft__page *page = arg;
    struct weft__leaf *leaf = find(page, sitter->pid);
    if (weft_pid_is_none(sitter->pid)) {
        note_absent(page, sitter);
    } else if (leaf) {
        leaf->seat = sitter->seat;
    }
}

/* --- snapshot --------------------------------------------------------------------------------- */

void weft__page_fill(struct weft__page *page, weft_host *host)
{
    page->leaves.count = page->branches.count = page->absents.count = page->cut = 0;
    page->branch = WEFT__NOBODY;
    weft_each_actor(host, collect, page);
    plant(page);
    weft__tree_visit(
        host, &(struct weft__tree_visitor){.team = note_team, .seat = note_seat, .arg = page});
    close_branch(page);
}

void weft__page_free(struct weft__page *page)
{
    weft__free(page->leaves.items);
    weft__free(page->branches.items);
    weft__free(page->absents.items);
}
