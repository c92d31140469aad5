/* Connections by id.
 *
 * An id is {generation:32, 1 + slot * workers + worker:32}. Each worker has a table of slots, under
 * its lock; a slot's generation counts the connections that have used it. An id whose generation is
 * not that of its slot is old: it finds nothing, never another client. A slot whose generations are
 * used up is not used again.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "conn/conn.h"

#define FIRST_ENTRIES 64u

static bool grow_locked(struct weft__conn_shard *shard)
{
    uint32_t count = shard->entry_count ? 2 * shard->entry_count : FIRST_ENTRIES;
    struct weft__conn_entry *entries = weft__alloc(count * sizeof *entries);
    if (!entries) {
        return false;
    }
    if (shard->entries) {
        memcpy(entries, shard->entries, shard->entry_count * sizeof *entries);
    }
    for (uint32_t i = count; i > shard->entry_count; i--) {
        entries[i - 1].next_free = shard->first_free;
        shard->first_free = i;
    }
    weft__free(shard->entries);
    shard->entries = entries;
    shard->entry_count = count;
    return true;
}

int weft__conn_id_take(struct weft__conn_shard *shard, struct weft__conn_session *session)
{
    const struct weft__server *server = session->base.server;
    int err = 0;
    weft__lock(&shard->lock);
    if (!shard->first_free && !grow_locked(shard)) {
        err = -ENOMEM;
    } else {
        uint32_t slot = shard->first_free - 1;
        struct weft__conn_entry *entry = &shard->entries[slot];
        shard->first_free = entry->next_free;
        entry->session = session;
        session->id = (uint64_t)entry->generation << 32 |
                      (1 + slot * server->workers + (uint32_t)session->base.worker);
    }
    weft__unlock(&shard->lock);
    return err;
}

static struct weft__conn_entry *entry_of(const struct weft_server *server,
                                         struct weft__conn_shard *shard, weft_conn_id id)
{
    uint32_t slot = ((uint32_t)id - 1) / server->base.workers;
    return slot < shard->entry_count ? &shard->entries[slot] : NULL;
}

void weft__conn_id_drop(struct weft__conn_shard *shard, struct weft__conn_session *session)
{
    struct weft_server *server = shard->server;
    weft__lock(&shard->lock);
    struct weft__conn_entry *entry = entry_of(server, shard, session->id);
    entry->session = NULL;
    if (++entry->generation != 0) {
        entry->next_free = shard->first_free;
        shard->first_free = (uint32_t)(entry - shard->entries) + 1;
    }
    weft__sender_unqueue_locked(shard, session);
    weft__sender_settle_locked(server, session, session->output_bytes);
    weft_bufs outbox = session->outbox;
    session->outbox = (weft_bufs){0};
    weft__unlock(&shard->lock);
    weft_bufs_free(&outbox);
}

struct weft__conn_session *weft__conn_find_lock(struct weft_server *server,
                                                struct weft__conn_shard **shard, weft_conn_id id)
{
    if ((uint32_t)id == 0) {
        return NULL;
    }
    *shard = &server->shards[((uint32_t)id - 1) % server->base.workers];
    weft__lock(&(*shard)->lock);
    const struct weft__conn_entry *entry = entry_of(server, *shard, id);
    if (entry && entry->session && entry->generation == (uint32_t)(id >> 32)) {
        return entry->session;
    }
    weft__unlock(&(*shard)->lock);
    return NULL;
}
