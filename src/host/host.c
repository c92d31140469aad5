/* Hosts: a set of actors with its pool and limits. The structs are never freed but reused: an
 * envelope that arrives late may still be counted in one. */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include <weft/inspect.h>

#include "actor/topic_check.h"
#include "actorinfo/actor_info.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/nonnull.h"
#include "command/command_request.h"
#include "remote/route.h"
#include "sched/fault.h"
#include "sched/pool.h"
#include "task/handle.h"

#define DEFAULT_MAILBOX 65536u
#define DEFAULT_BATCH 64u
#define DEFAULT_TURN_EVENTS 1024u
#define DEFAULT_TURN_NS 200000
#define DEFAULT_RESULTS 1024u
#define MAX_RESULTS (1u << 20)
#define MAX_HOSTS 65535u

static struct weft__lock lock;
/* under the lock */
static weft_host *free_hosts, *open_hosts;
static uint32_t host_count;
static _Atomic(weft_host *) hosts_by_number[MAX_HOSTS + 1]; /* by number; written under the lock */

weft_host *weft__host_at(uint32_t number)
{
    return number <= MAX_HOSTS
               ? atomic_load_explicit(&hosts_by_number[number], memory_order_acquire)
               : NULL;
}

static int acquire_host(weft_host **out)
{
    weft__lock(&lock);
    weft_host *host = free_hosts;
    int err = host ? 0 : host_count == MAX_HOSTS ? -EMFILE : -ENOMEM;
    if (host) {
        free_hosts = host->next;
    } else if (err == -ENOMEM && (host = weft__alloc(sizeof *host))) {
        err = 0;
        host->number = ++host_count;
        atomic_store_explicit(&hosts_by_number[host_count], host,
                              memory_order_release); /* pairs: weft__host_at */
    }
    weft__unlock(&lock);
    *out = host;
    return err;
}

static void release_host(weft_host *host)
{
    weft__lock(&lock);
    host->next = free_hosts;
    free_hosts = host;
    weft__unlock(&lock);
}

int weft_host_create(weft_host **out, const struct weft_host_opts *options)
{
    static const struct weft_host_opts defaults;
    const struct weft_host_opts *opts = options ? options : &defaults;
    if (opts->batch > WEFT__BATCH_MAX) {
        return weft__refuse(-EINVAL, "batch: must be at most 64");
    }
    if (opts->turn_ns < 0) {
        return weft__refuse(-EINVAL, "turn_ns: must not be negative");
    }
    if (opts->results > MAX_RESULTS) {
        return weft__refuse(-EINVAL, "results: must be at most 1048576");
    }
    weft__fault_install_abort();
    weft__node_freeze();
    weft__actor_info_register();
    weft__image_find();
    weft_host *host;
    int err = acquire_host(&host);
    if (err) {
        return err;
    }
    err = weft_pool_create(&host->pool,
                           &(struct weft_pool_opts){.name = opts->name ? opts->name : "actors",
                                                    .workers = opts->workers,
                                                    .driver = opts->driver});
    if (err) {
        release_host(host);
        return err;
    }
    host->max_actors = opts->max_actors ? opts->max_actors : UINT64_MAX;
    atomic_store_explicit(&host->live, 0, memory_order_relaxed);
    host->mailbox = opts->mailbox ? opts->mailbox : DEFAULT_MAILBOX;
    host->batch = opts->batch ? opts->batch : DEFAULT_BATCH;
    host->turn_events = opts->turn_events ? opts->turn_events : DEFAULT_TURN_EVENTS;
    weft__exit_records_init(&host->exits, opts->results ? opts->results : DEFAULT_RESULTS);
    host->turn_ns = opts->turn_ns ? opts->turn_ns : DEFAULT_TURN_NS;
    atomic_store_explicit(&host->spawned, 0, memory_order_relaxed);
    atomic_store_explicit(&host->ended, 0, memory_order_relaxed);
    atomic_store_explicit(&host->dead, 0, memory_order_relaxed);
    atomic_store_explicit(&host->forced, 0, memory_order_relaxed);
    atomic_store_explicit(&host->stopping, false, memory_order_relaxed);
    err = weft__host_handle_builtin(host);
    err = err ? err : weft_pool_start(host->pool);
    if (err) {
        weft_host_destroy(host);
        return err;
    }
    weft__lock(&lock);
    host->next = open_hosts;
    open_hosts = host;
    weft__unlock(&lock);
    *out = host;
    return 0;
}

void weft_host_each(bool (*visit)(weft_host *host, void *arg), void *arg)
{
    weft__lock(&lock);
    for (weft_host *host = open_hosts; host && visit(host, arg); host = host->next) {
    }
    weft__unlock(&lock);
}

static void unlist_host(weft_host *host)
{
    weft__lock(&lock);
    weft_host **at = &open_hosts;
    while (*at && *at != host) {
        at = &(*at)->next;
    }
    if (*at) { /* else its creation failed */
        *at = host->next;
    }
    weft__unlock(&lock);
}

/* --- stop ------------------------------------------------------------------------------------- */

void weft__host_cancel(weft_host *host, weft_pid pid)
{
    const char *reason =
        host->stop_reason ? (const char *)host->stop_reason->data : "the host is stopping";
    /* Skips helper fibers of actors, and actors that are not published yet. */
    if (weft__actor_of(pid) && weft_actor_cancel(pid, reason) == -ENOMEM) {
        weft_cancel(pid.id); /* the actor ends, as if the stop's deadline had passed */
    }
}

/* Returns true for the first stop, which then cancels every actor. */
static bool begin_stop(weft_host *host, const char *reason)
{
    weft__lock(&host->lock);
    bool first = !atomic_load_explicit(&host->stopping, memory_order_relaxed);
    if (first) {
        host->stop_reason = reason ? weft_buf_copy(reason, strlen(reason) + 1) : NULL;
        atomic_store_explicit(&host->stopping, true,
                              memory_order_seq_cst); /* pairs: check_stopping */
        /* A spawn that has not seen `stopping` was counted in `spawned` before this load, and its
         * actor was published before that. */
        (void)atomic_load_explicit(&host->spawned, memory_order_seq_cst);
    }
    weft__unlock(&host->lock);
    return first;
}

/* A task does not end while its ident lock is held. */
static void cancel_all_actors(weft_host *host)
{
    uint32_t slots = weft__slab_slots();
    for (uint32_t slot = 1; slot <= slots; slot++) {
        struct weft__task *task = weft__slab_find(slot);
        uint64_t ident = atomic_load_explicit(&task->ident, memory_order_acquire);
        if (!(ident & WEFT__IDENT_LIVE) ||
            !weft__ident_lock(task, weft__ident_generation(ident), 0, &ident)) {
            continue;
        }
        bool ours = weft__pool_owns(host->pool, task, ident);
        weft_pid pid = {.node = weft__node(), .host = host->number, .id = weft__task_handle(task)};
        weft__ident_unlock(task, ident);
        if (ours) {
            weft__host_cancel(host, pid);
        }
    }
}

int weft_host_stop(weft_host *host, const char *reason, int64_t deadline)
{
    WEFT__NONNULL(host);
    if (begin_stop(host, reason)) {
        cancel_all_actors(host);
    }
    int err = weft_pool_stop(host->pool, WEFT_STOP_DRAIN, deadline);
    uint64_t forced = atomic_load_explicit(&host->forced, memory_order_relaxed);
    return err ? err : forced < INT_MAX ? (int)forced : INT_MAX;
}

void weft_host_destroy(weft_host *host)
{
    if (host) {
        int phase = atomic_load_explicit(&host->pool->phase, memory_order_acquire);
        WEFT__REQUIRE(phase == WEFT__POOL_CREATED || phase == WEFT__POOL_STOPPED,
                      "weft_host_destroy: host %s still runs: call weft_host_stop first, until it "
                      "returns no error",
                      host->pool->name);
        unlist_host(host);
        weft_pool_destroy(host->pool);
        host->pool = NULL;
        weft__handlers_free(&host->handlers);
        weft__hooks_free(host);
        weft__dead_letters_close(host);
        weft__exit_records_free(&host->exits);
        weft__string_table_free(&host->names);
        weft__string_table_free(&host->groups);
        weft_buf_free(host->stop_reason);
        host->stop_reason = NULL;
        atomic_store_explicit(&host->frozen, false, memory_order_relaxed);
        release_host(host);
    }
}

const char *weft_host_name(const weft_host *host)
{
    WEFT__NONNULL(host);
    return weft_pool_name(host->pool);
}

void weft_host_stats(weft_host *host, struct weft_host_stats *out)
{
    WEFT__NONNULL(host);
    *out = (struct weft_host_stats){
        .ended = atomic_load_explicit(&host->ended, memory_order_relaxed),
        .spawned = atomic_load_explicit(&host->spawned, memory_order_relaxed),
        .dead_letters = atomic_load_explicit(&host->dead, memory_order_relaxed),
    };
    /* An actor is counted as spawned after it was published, and may have ended by then. */
    out->live = out->spawned > out->ended ? out->spawned - out->ended : 0;
    struct weft_pool_stats pool;
    weft_pool_stats(host->pool, &pool);
    out->workers = pool.workers;
    out->executed = pool.total.executed;
    out->stolen = pool.total.stolen;
    out->ready = pool.total.ring + pool.total.fresh + pool.global;
}
