/* Groups of actors. A member is in the list of its group, under the table's lock, and in the
 * relation list of its actor, under the actor's lock; both locks are held to add or remove it, the
 * actor's first. */
#include <errno.h>
#include <string.h>

#include <weft/names.h>

#include "actor/route.h"
#include "actor/tie.h"
#include "base/alloc.h"
#include "base/need.h"

#define FEW 64u

struct group {
    struct weft__entry entry; /* first: cast from it */
    struct member *first, *last;
    size_t members;
    char text[];
};

struct member {
    struct weft__tie tie; /* first: cast from it */
    weft_host *host;
    struct group *group;
    struct member *next, *prev;
    weft_pid pid;
    size_t joined; /* number of joins */
};

/* --- under the table's lock ------------------------------------------------------------------- */

static struct group *find(weft_host *host, const char *text)
{
    return (struct group *)(void *)weft__table_find(&host->groups, text);
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
static void take_out(struct member *member)
{
    struct group *group = member->group;
    *(member->prev ? &member->prev->next : &group->first) = member->next;
    *(member->next ? &member->next->prev : &group->last) = member->prev;
    if (--group->members == 0) {
        weft__table_remove(&member->host->groups, &group->entry);
        weft__free(group);
    }
}

/* --- under the actor's lock, too -------------------------------------------------------------- */

static struct member *member_of(weft_actor *actor, const struct group *group)
{
    struct weft__tie *tie = group ? actor->ties : NULL;
    while (tie &&
           (tie->kind != WEFT__TIE_GROUP || ((struct member *)(void *)tie)->group != group)) {
        tie = tie->next;
    }
    return (struct member *)(void *)tie;
}

void weft__group_cut(struct weft__tie *tie)
{
    struct member *member = (struct member *)(void *)tie;
    struct weft__lock *lock = &member->host->groups.lock;
    weft__lock(lock);
    take_out(member);
    weft__unlock(lock);
    weft__free(member);
}

/* Memory allocated before the locks are taken; a pointer that was used is set to NULL. */
struct brought {
    struct member *member;
    struct group *group;
};

static int join(weft_actor *actor, weft_host *host, struct brought *brought)
{
    struct group *group = find(host, brought->group->text);
    struct member *member = member_of(actor, group);
    if (member) {
        member->joined++;
        return 0;
    }
    if (!group) {
        if (!weft__table_grow(&host->groups)) {
            return -ENOMEM;
        }
        group = brought->group;
        brought->group = NULL;
        weft__table_add(&host->groups, &group->entry);
    }
    member = brought->member;
    brought->member = NULL;
    append(group, member);
    weft__tie_add(&actor->ties, &member->tie);
    return 0;
}

static bool bring(struct brought *brought, weft_host *host, const char *text, weft_pid pid)
{
    size_t bytes = strlen(text);
    brought->group = weft__alloc(sizeof *brought->group + bytes + 1);
    brought->member = weft__alloc(sizeof *brought->member);
    if (!brought->group || !brought->member) {
        return false;
    }
    memcpy(brought->group->text, text, bytes);
    brought->group->entry.key = brought->group->text;
    brought->member->tie.kind = WEFT__TIE_GROUP;
    brought->member->host = host;
    brought->member->pid = pid;
    brought->member->joined = 1;
    return true;
}

static int join_locked(weft_actor *actor, weft_host *host, weft_pid pid, struct brought *brought)
{
    if (weft__actor_of(pid) != actor) {
        return -ESRCH;
    }
    if (actor->host != host) {
        return -EINVAL;
    }
    weft__lock(&host->groups.lock);
    int err = join(actor, host, brought);
    weft__unlock(&host->groups.lock);
    return err;
}

/* --- public calls ----------------------------------------------------------------------------- */

int weft_actor_group_join(weft_host *host, const char *text, weft_pid pid)
{
    WEFT__NEED(host);
    weft_actor *actor = weft__actor_find((uint32_t)pid.id);
    struct brought brought = {.member = NULL};
    if (!text[0] || pid.node != weft__node()) {
        return -EINVAL;
    }
    int err = bring(&brought, host, text, pid) ? -ESRCH : -ENOMEM;
    if (err == -ESRCH && actor) {
        weft__lock(&actor->lock);
        err = join_locked(actor, host, pid, &brought);
        weft__unlock(&actor->lock);
    }
    weft__free(brought.member);
    weft__free(brought.group);
    return err;
}

int weft_actor_group_leave(weft_host *host, const char *text, weft_pid pid)
{
    WEFT__NEED(host);
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
        weft__tie_remove(&member->tie);
        take_out(member);
    }
    weft__unlock(&host->groups.lock);
    weft__unlock(&actor->lock);
    if (gone) {
        weft__free(member);
    }
    return member ? 0 : -ENOENT;
}

size_t weft_actor_group_members(weft_host *host, const char *text, weft_pid *out, size_t room)
{
    WEFT__NEED(host);
    size_t count = 0;
    weft__lock(&host->groups.lock);
    const struct group *group = find(host, text);
    for (const struct member *m = group ? group->first : NULL; m; m = m->next) {
        if (count < room) {
            out[count] = m->pid;
        }
        count++;
    }
    weft__unlock(&host->groups.lock);
    return count;
}

/* Returns every member, in `few` or in memory that the caller frees; NULL: no memory. */
static weft_pid *collect(weft_host *host, const char *text, weft_pid *few, size_t *count)
{
    weft_pid *pids = few;
    size_t room = FEW;
    while ((*count = weft_actor_group_members(host, text, pids, room)) > room) {
        if (pids != few) {
            weft__free(pids);
        }
        room = *count + *count / 4;
        pids = weft__alloc_dirty(room * sizeof *pids);
        if (!pids) {
            return NULL;
        }
    }
    return pids;
}

int64_t weft_actor_group_publish(weft_host *host, const char *text, const char *topic, uint64_t tag,
                                 const weft_buf *buf)
{
    WEFT__NEED(host);
    weft_pid few[FEW];
    size_t count;
    int64_t sent = 0;
    weft_pid *pids = collect(host, text, few, &count);
    if (!pids) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        weft_buf *view = buf ? weft_buf_share(buf) : NULL;
        if (view || !buf) {
            sent += weft_actor_send(pids[i], topic, tag, view) == 0;
        }
    }
    if (pids != few) {
        weft__free(pids);
    }
    return sent;
}
