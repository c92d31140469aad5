/* Groups of actors. A member is in the list of its group, under the table's lock, and in the
 * relation list of its actor, under the actor's lock; both locks are held to add or remove it, the
 * actor's first. */
#include <errno.h>
#include <string.h>

#include <weft/actor.h>

#include "base/alloc.h"
#include "base/nonnull.h"
#include "relation/relation.h"
#include "remote/route.h"

#define STACK_PIDS 64u

struct group {
    struct weft__string_table_entry entry; /* first: cast from it */
    struct member *first, *last;
    size_t members;
    char text[];
};

struct member {
    struct weft__relation relation; /* first: cast from it */
    weft_host *host;
    struct group *group;
    struct member *next, *prev;
    weft_pid pid;
    size_t joined; /* number of joins */
};

/* --- under the table's lock ------------------------------------------------------------------- */

static struct group *find(weft_host *host, const char *text)
{
    return (struct group *)(void *)weft__string_table_find(&host->groups, text);
}

static void append(struct group *group, struct member *member)
{
    member->group = group;
    member->next = NULL;
    member->prev = group->last;
    *(group->last ? &group->last->next : &group->first) = member;
    group->last = member;
    group->members++;
}

/* Removes the group with its last member. */
static void remove_member(struct member *member)
{
    struct group *group = member->group;
    *(member->prev ? &member->prev->next : &group->first) = member->next;
    *(member->next ? &member->next->prev : &group->last) = member->prev;
    if (--group->members == 0) {
        weft__string_table_remove(&member->host->groups, &group->entry);
        weft__free(group);
    }
}

/* --- under the actor's lock, too -------------------------------------------------------------- */

static struct member *member_of(weft_actor *actor, const struct group *group)
{
    struct weft__relation *relation = group ? actor->relations : NULL;
    while (relation && (relation->kind != WEFT__RELATION_GROUP ||
                        ((struct member *)(void *)relation)->group != group)) {
        relation = relation->next;
    }
    return (struct member *)(void *)relation;
}

void weft__group_release(struct weft__relation *relation)
{
    struct member *member = (struct member *)(void *)relation;
    struct weft__lock *lock = &member->host->groups.lock;
    weft__lock(lock);
    remove_member(member);
    weft__unlock(lock);
    weft__free(member);
}

/* Memory allocated before the locks are taken; a pointer that was used is set to NULL. */
struct preallocated {
    struct member *member;
    struct group *group;
};

static int join(weft_actor *actor, weft_host *host, struct preallocated *preallocated)
{
    struct group *group = find(host, preallocated->group->text);
    struct member *member = member_of(actor, group);
    if (member) {
        member->joined++;
        return 0;
    }
    if (!group) {
        if (!weft__string_table_grow(&host->groups)) {
            return -ENOMEM;
        }
        group = preallocated->group;
        preallocated->group = NULL;
        weft__string_table_add(&host->groups, &group->entry);
    }
    member = preallocated->member;
    preallocated->member = NULL;
    append(group, member);
    weft__relation_add(&actor->relations, &member->relation);
    return 0;
}

static bool preallocate(struct preallocated *preallocated, weft_host *host, const char *text,
                        weft_pid pid)
{
    size_t bytes = strlen(text);
    preallocated->group = weft__alloc(sizeof *preallocated->group + bytes + 1);
    preallocated->member = weft__alloc(sizeof *preallocated->member);
    if (!preallocated->group || !preallocated->member) {
        return false;
    }
    memcpy(preallocated->group->text, text, bytes);
    preallocated->group->entry.key = preallocated->group->text;
    preallocated->member->relation.kind = WEFT__RELATION_GROUP;
    preallocated->member->host = host;
    preallocated->member->pid = pid;
    preallocated->member->joined = 1;
    return true;
}

static int join_locked(weft_actor *actor, weft_host *host, weft_pid pid,
                       struct preallocated *preallocated)
{
    if (weft__actor_of(pid) != actor) {
        return -ESRCH;
    }
    if (actor->host != host) {
        return -EINVAL;
    }
    weft__lock(&host->groups.lock);
    int err = join(actor, host, preallocated);
    weft__unlock(&host->groups.lock);
    return err;
}

/* --- public calls ----------------------------------------------------------------------------- */

int weft_actor_group_join(weft_host *host, const char *text, weft_pid pid)
{
    WEFT__NONNULL(host);
    weft_actor *actor = weft__actor_find((uint32_t)pid.id);
    struct preallocated preallocated = {.member = NULL};
    if (!text[0] || pid.node != weft__node()) {
        return -EINVAL;
    }
    int err = preallocate(&preallocated, host, text, pid) ? -ESRCH : -ENOMEM;
    if (err == -ESRCH && actor) {
        weft__lock(&actor->lock);
        err = join_locked(actor, host, pid, &preallocated);
        weft__unlock(&actor->lock);
    }
    weft__free(preallocated.member);
    weft__free(preallocated.group);
    return err;
}

int weft_actor_group_leave(weft_host *host, const char *text, weft_pid pid)
{
    WEFT__NONNULL(host);
    weft_actor *actor = weft__actor_find((uint32_t)pid.id);
    struct member *member = NULL;
    bool gone = false;
    if (!actor || pid.node != weft__node()) {
        return -ENOENT;
    }
    weft__lock(&actor->lock);
    weft__lock(&host->groups.lock);
    member = weft__actor_of(pid) == actor ? member_of(actor, find(host, text)) : NULL;
    if (member && --member->joined == 0) {
        gone = true;
        weft__relation_remove(&member->relation);
        remove_member(member);
    }
    weft__unlock(&host->groups.lock);
    weft__unlock(&actor->lock);
    if (gone) {
        weft__free(member);
    }
    return member ? 0 : -ENOENT;
}

size_t weft_actor_group_members(weft_host *host, weft_pid *out, size_t capacity, const char *text)
{
    WEFT__NONNULL(host);
    size_t count = 0;
    weft__lock(&host->groups.lock);
    const struct group *group = find(host, text);
    for (const struct member *m = group ? group->first : NULL; m; m = m->next) {
        if (count < capacity) {
            out[count] = m->pid;
        }
        count++;
    }
    weft__unlock(&host->groups.lock);
    return count;
}

/* Returns every member, in `stack_pids` or in memory that the caller frees; NULL: no memory. */
static weft_pid *collect(weft_host *host, const char *text, weft_pid *stack_pids, size_t *count)
{
    weft_pid *pids = stack_pids;
    size_t capacity = STACK_PIDS;
    while ((*count = weft_actor_group_members(host, pids, capacity, text)) > capacity) {
        if (pids != stack_pids) {
            weft__free(pids);
        }
        capacity = *count + *count / 4;
        pids = weft__alloc_dirty(capacity * sizeof *pids);
        if (!pids) {
            return NULL;
        }
    }
    return pids;
}

int64_t weft_actor_group_publish(weft_host *host, const char *text, const char *topic, uint64_t tag,
                                 const weft_buf *buf, int64_t deadline)
{
    WEFT__NONNULL(host);
    weft_pid stack_pids[STACK_PIDS];
    size_t count;
    int64_t sent = 0;
    weft_pid *pids = collect(host, text, stack_pids, &count);
    if (!pids) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        weft_buf *view = buf ? weft_buf_share(buf) : NULL;
        if (view || !buf) {
            sent += weft_actor_send(pids[i], topic, tag, view, deadline) == 0;
        }
    }
    if (pids != stack_pids) {
        weft__free(pids);
    }
    return sent;
}
