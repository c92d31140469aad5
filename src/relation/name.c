/* Registered names. A name is in the host's table, by its text, and in the relation list of its
 * actor; both locks are held to add or remove it, the actor's first. An actor whose admission is
 * closed no longer has its names, even if its exit has not removed them yet: a thread that
 * registers such a name removes the old entry from the table. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weft/actor.h>

#include "base/alloc.h"
#include "base/nonnull.h"
#include "base/objname.h"
#include "relation/relation.h"
#include "remote/route.h"

struct weft__name {
    struct weft__relation relation; /* first: cast from it */
    struct weft__string_table_entry entry;
    weft_host *host;
    weft_pid pid;
    bool listed; /* in the table; under the table's lock */
    char text[];
};

static struct weft__name *name_of_entry(struct weft__string_table_entry *entry)
{
    return entry ? (struct weft__name *)(void *)((char *)entry - offsetof(struct weft__name, entry))
                 : NULL;
}

struct weft__name *weft__name_new(weft_host *host, const char *text, weft_pid pid, int *err)
{
    size_t bytes = strlen(text);
    if (bytes == 0) {
        *err = -EINVAL;
        return NULL;
    }
    struct weft__name *name = weft__alloc(sizeof *name + bytes + 1);
    *err = name ? 0 : -ENOMEM;
    if (name) {
        memcpy(name->text, text, bytes);
        name->relation.kind = WEFT__RELATION_NAME;
        name->entry.key = name->text;
        name->host = host;
        name->pid = pid;
    }
    return name;
}

void weft__name_free(struct weft__name *name)
{
    weft__free(name);
}

/* --- under the table's lock ------------------------------------------------------------------- */

static void remove_from_table(struct weft__name *name)
{
    if (name->listed) {
        weft__string_table_remove(&name->host->names, &name->entry);
        name->listed = false;
    }
}

/* The entry of the running actor that has the name, or NULL. */
static struct weft__name *find(weft_host *host, const char *text)
{
    struct weft__name *name = name_of_entry(weft__string_table_find(&host->names, text));
    return name && weft__actor_of(name->pid) ? name : NULL;
}

static int insert(struct weft__name *name)
{
    weft_host *host = name->host;
    if (find(host, name->text)) {
        return -EEXIST;
    }
    struct weft__name *stale = name_of_entry(weft__string_table_find(&host->names, name->text));
    if (stale) {
        remove_from_table(stale);
    }
    if (!weft__string_table_grow(&host->names)) {
        return -ENOMEM;
    }
    weft__string_table_add(&host->names, &name->entry);
    name->listed = true;
    return 0;
}

/* --- under the actor's lock ------------------------------------------------------------------- */

int weft__name_publish_locked(weft_actor *actor, struct weft__name *name, uint64_t admission)
{
    if (!name) {
        atomic_store_explicit(&actor->admission, admission, memory_order_release);
        return 0;
    }
    weft__lock(&name->host->names.lock);
    int err = insert(name);
    if (!err) {
        atomic_store_explicit(&actor->admission, admission, memory_order_release);
    }
    weft__unlock(&name->host->names.lock);
    if (!err) {
        weft__relation_add(&actor->relations, &name->relation);
    }
    return err;
}

void weft__name_release(struct weft__relation *relation)
{
    struct weft__name *name = (struct weft__name *)(void *)relation;
    struct weft__lock *lock = &name->host->names.lock;
    weft__lock(lock);
    remove_from_table(name);
    weft__unlock(lock);
    weft__name_free(name);
}

static int add_locked(weft_actor *actor, struct weft__name *name)
{
    if (weft__actor_of(name->pid) != actor) {
        return -ESRCH;
    }
    if (actor->host != name->host) {
        return -EINVAL;
    }
    weft__lock(&name->host->names.lock);
    int err = insert(name);
    weft__unlock(&name->host->names.lock);
    if (!err) {
        weft__relation_add(&actor->relations, &name->relation);
    }
    return err;
}

/* --- public calls ----------------------------------------------------------------------------- */

int weft_actor_register(weft_host *host, const char *text, weft_pid pid)
{
    WEFT__NONNULL(host);
    int err = -EINVAL;
    weft_actor *actor = weft__actor_find((uint32_t)pid.id);
    struct weft__name *name =
        pid.node == weft__node() ? weft__name_new(host, text, pid, &err) : NULL;
    if (!name) {
        return err;
    }
    err = -ESRCH;
    if (actor) {
        weft__lock(&actor->lock);
        err = add_locked(actor, name);
        weft__unlock(&actor->lock);
    }
    if (err) {
        weft__name_free(name);
    }
    return err;
}

int weft_actor_whereis(weft_host *host, weft_pid *out, const char *text)
{
    WEFT__NONNULL(host);
    weft__lock(&host->names.lock);
    const struct weft__name *name = find(host, text);
    if (name) {
        *out = name->pid;
    }
    weft__unlock(&host->names.lock);
    return name ? 0 : -ENOENT;
}

/* Under the actor's lock: remove the name from this actor. NULL: another actor has the name by
 * now. */
static struct weft__name *remove_from_actor(weft_host *host, const char *text, weft_pid pid)
{
    weft__lock(&host->names.lock);
    struct weft__name *name = find(host, text);
    if (name && weft_pid_equal(name->pid, pid)) {
        remove_from_table(name);
        weft__relation_remove(&name->relation);
    } else {
        name = NULL;
    }
    weft__unlock(&host->names.lock);
    return name;
}

int weft_actor_unregister(weft_host *host, const char *text)
{
    WEFT__NONNULL(host);
    weft_pid pid;
    struct weft__name *name = NULL;
    while (!name && weft_actor_whereis(host, &pid, text) == 0) {
        weft_actor *actor = weft__actor_find((uint32_t)pid.id);
        weft__lock(&actor->lock);
        name = remove_from_actor(host, text, pid);
        weft__unlock(&actor->lock);
    }
    weft__name_free(name);
    return name ? 0 : -ENOENT;
}

int weft_actor_name(weft_pid pid, char *buf, size_t size)
{
    weft_actor *actor = weft__actor_find((uint32_t)pid.id);
    int n = -ESRCH;
    if (!actor || pid.node != weft__node()) {
        return n;
    }
    weft__lock(&actor->lock);
    if (weft__actor_of(pid) == actor) {
        const struct weft__relation *relation = actor->relations;
        while (relation && relation->kind != WEFT__RELATION_NAME) {
            relation = relation->next;
        }
        n = relation ? snprintf(buf, size, "%s",
                                ((const struct weft__name *)(const void *)relation)->text)
                     : -ENOENT;
    }
    weft__unlock(&actor->lock);
    return n;
}

void weft__name_first_locked(const weft_actor *actor, char *text, size_t size)
{
    const struct weft__relation *relation = actor->relations, *first = NULL;
    for (; relation; relation = relation->next) { /* the list has the newest relation first */
        first = relation->kind == WEFT__RELATION_NAME ? relation : first;
    }
    weft__objname_truncate(text, size,
                           first ? ((const struct weft__name *)(const void *)first)->text : "");
}
