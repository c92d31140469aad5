/* Entries of the pending table: adding, removing, timers, and pending sends.
 *
 * An entry is for an actor and is in the list of that actor's bucket; only the waits of fibers and
 * threads are not (mailbox/pending_call.c). Its timer fires the entry: sends the envelope, and
 * removes the entry unless it repeats. The callback of the timer and a removal may meet. The
 * callback takes the bucket's lock, and finds `ref` 0 if the entry was removed. The thread that
 * removes an entry stops its timer under the same lock: if the callback has started, the callback
 * frees the entry, otherwise that thread does. Envelopes are sent after the lock is released.
 *
 * A pending send is in the admission queue of its receiver as well. The thread that removes it from
 * that queue settles it; a timer or an end of the sender that comes second leaves it alone.
 */
#include "mailbox/pending.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fiber/cancel.h"
#include "mailbox/pending_send.h"
#include "mailbox/pending_table.h"

#define NO_REF UINT64_MAX /* of a pending send: not looked up by reference */

/* --- removing, under the bucket's lock -------------------------------------------------------- */

void weft__pending_remove_entry(struct weft__pending_bucket *bucket,
                                struct weft__pending_entry *entry)
{
    if (entry->kind == WEFT__PENDING_WAIT) {
        weft__pending_remove_wait(bucket, entry);
        return;
    }
    if (entry->kind == WEFT__PENDING_CALL && entry->linked) {
        weft__pending_unlink_callee(entry);
    }
    if (entry->ref != NO_REF) {
        weft__pending_free_slot(bucket, entry->ref);
    }
    if (!weft_pid_is_none(entry->to)) {
        *(entry->prev ? &entry->prev->next : &bucket->first) = entry->next;
        if (entry->next) {
            entry->next->prev = entry->prev;
        }
    }
    entry->ref = 0;
}

bool weft__pending_stop_timer(struct weft__pending_entry *entry)
{
    return !entry->timed || weft_timer_cancel(&entry->timer) != WEFT_TIMER_RUNNING;
}

/* --- entries ---------------------------------------------------------------------------------- */

struct weft__pending_entry *weft__pending_entry_new(enum weft__pending_kind kind, weft_pid to,
                                                    enum weft_actor_event_kind event, uint64_t tag)
{
    struct weft__pending_entry *entry = weft__alloc(sizeof *entry);
    struct weft__envelope *envelope = entry ? weft__envelope_new(event, tag, NULL) : NULL;
    if (!envelope) {
        weft__free(entry);
        return NULL;
    }
    entry->kind = (uint8_t)kind;
    entry->to = to;
    entry->envelope = envelope;
    return entry;
}

void weft__pending_entry_free(struct weft__pending_entry *entry)
{
    if (entry->envelope) {
        weft__envelope_free(entry->envelope);
    }
    if (entry->kind == WEFT__PENDING_SEND) {
        weft__pending_send_free((struct weft__pending_send *)(void *)entry);
    } else {
        weft__free(entry);
    }
}

void weft__pending_send_to(weft_pid to, struct weft__envelope *envelope)
{
    weft__envelope_set_trace(envelope);
    if (weft__envelope_is_message(envelope)) {
        if (weft__envelope_send(to, envelope, WEFT_BY_POLICY) != 0) {
            weft__envelope_address(envelope, to);
            weft__envelope_discard(envelope, (uint32_t)to.id);
        }
    } else {
        weft__envelope_post_system(to, envelope);
    }
}

/* --- timer callbacks -------------------------------------------------------------------------- */

static struct weft__envelope *copy_of(const struct weft__envelope *envelope)
{
    weft_buf *buf = envelope->buf ? weft_buf_share(envelope->buf) : NULL;
    if (envelope->buf && !buf) {
        return NULL;
    }
    struct weft__envelope *copy = weft__envelope_new(WEFT_EVENT_MESSAGE, envelope->tag, buf);
    if (!copy) {
        weft_buf_free(buf);
        return NULL;
    }
    copy->topic = envelope->topic;
    return copy;
}

/* In the entry's own callback: the timer is not used afterwards. */
static void free_running(struct weft__pending_entry *entry)
{
    weft_timer_deinit(&entry->timer);
    weft__pending_entry_free(entry);
}

static void set_timer(struct weft__pending_entry *entry);

/* In the callback, which has given up its timer: a thread that removes the entry from now on finds
 * a timer that is pending. */
static void set_next(struct weft__pending_entry *entry)
{
    int64_t now = weft__clock_ns(), period = entry->period_ns;
    int64_t passed = now > entry->deadline ? (now - entry->deadline) / period * period : 0;
    bool never = __builtin_add_overflow(entry->deadline, passed, &entry->deadline) ||
                 __builtin_add_overflow(entry->deadline, period, &entry->deadline);
    entry->deadline = never ? WEFT_FOREVER : entry->deadline;
    weft_timer_deinit(&entry->timer);
    set_timer(entry);
}

static void repeat(struct weft__pending_bucket *bucket, struct weft__pending_entry *entry)
{
    weft_pid to = entry->to;
    weft_host *host = entry->host;
    struct weft__envelope *copy = copy_of(entry->envelope);
    weft__unlock(&bucket->lock);
    if (copy) {
        weft__pending_send_to(to, copy);
    } else { /* no memory: this message is lost */
        atomic_fetch_add_explicit(&host->dead, 1, memory_order_relaxed);
    }
    weft__lock(&bucket->lock);
    bool out = entry->ref == 0;
    if (!out) {
        set_next(entry);
    }
    weft__unlock(&bucket->lock);
    if (out) {
        free_running(entry);
    }
}

/* Remove the send from the admission queue. Returns NULL if another thread has done so and settles
 * it. */
static struct weft__pending_send *dequeue_send(struct weft__pending_entry *entry)
{
    struct weft__pending_send *send = (struct weft__pending_send *)(void *)entry;
    return weft__admission_dequeue(&send->sender) ? send : NULL;
}

/* The error that an entry reports when its deadline has passed. */
static int deadline_error(const struct weft__pending_entry *entry)
{
    return entry->kind == WEFT__PENDING_CALL || entry->kind == WEFT__PENDING_SEND ? -ETIMEDOUT : 0;
}

static void on_timer(weft_timer *timer, void *arg, uint64_t times)
{
    struct weft__pending_entry *entry = arg;
    struct weft__pending_bucket *bucket = weft__pending_bucket_of((uint32_t)entry->to.id);
    struct weft__pending_send *send = NULL;
    (void)timer, (void)times;
    weft__lock(&bucket->lock);
    if (entry->ref && entry->kind == WEFT__PENDING_REPEAT) {
        repeat(bucket, entry);
        return;
    }
    if (entry->ref && entry->kind == WEFT__PENDING_SEND && !(send = dequeue_send(entry))) {
        entry->timed = false; /* the thread that dequeued it frees it */
        weft_timer_deinit(&entry->timer);
        weft__unlock(&bucket->lock);
        return;
    }
    struct weft__envelope *envelope = NULL;
    weft_pid to = entry->to;
    if (entry->ref) {
        envelope = entry->envelope;
        entry->envelope = NULL;
        envelope->error = deadline_error(entry);
        weft__pending_remove_entry(bucket, entry);
    }
    weft__unlock(&bucket->lock);
    if (send) {
        weft__envelope_free(send->sender.envelope);
    }
    free_running(entry);
    if (envelope) {
        weft__pending_send_to(to, envelope);
    }
}

static void set_timer(struct weft__pending_entry *entry)
{
    weft_timer_init(&entry->timer, on_timer, entry,
                    &(struct weft_timer_opts){.pool = entry->host->pool});
    entry->timed = true;
    weft_timer_set(&entry->timer, entry->deadline);
}

/* --- adding and removing ---------------------------------------------------------------------- */

/* Add to the actor's list, where its end finds the entry. */
static int enlist_locked(struct weft__pending_bucket *bucket, struct weft__pending_entry *entry)
{
    weft_actor *actor = weft__actor_find((uint32_t)entry->to.id);
    entry->prev = NULL;
    entry->next = bucket->first;
    if (entry->next) {
        entry->next->prev = entry;
    }
    bucket->first = entry;
    if (!weft__admission_mark_pending(actor, entry->to)) {
        weft__pending_remove_entry(bucket, entry);
        return -ESRCH;
    }
    entry->host = actor->host;
    return 0;
}

static int add_locked(struct weft__pending_bucket *bucket, struct weft__pending_entry *entry,
                      uint64_t *ref)
{
    if (!weft__pending_assign_ref(bucket, entry)) {
        return -ENOMEM;
    }
    int err = enlist_locked(bucket, entry);
    if (!err && entry->kind == WEFT__PENDING_CALL && !weft__pending_link_callee(bucket, entry)) {
        weft__pending_remove_entry(bucket, entry);
        err = -ESRCH;
    }
    if (ref && !err) {
        *ref = entry->ref;
    }
    return err;
}

int weft__pending_add(struct weft__pending_entry *entry, int64_t deadline, int64_t period_ns,
                      uint64_t *ref)
{
    struct weft__pending_bucket *bucket = weft__pending_bucket_of((uint32_t)entry->to.id);
    weft__lock(&bucket->lock);
    int err = add_locked(bucket, entry, ref);
    weft__deadline_check(deadline);
    if (!err && deadline != WEFT_FOREVER) {
        entry->deadline = deadline > 0 ? deadline : 0;
        entry->period_ns = period_ns;
        set_timer(entry);
    }
    weft__unlock(&bucket->lock);
    return err;
}

static bool is_on_stack(const struct weft__pending_entry *entry)
{
    return entry->kind == WEFT__PENDING_WAIT || entry->kind == WEFT__PENDING_FIBER;
}

bool weft__pending_drop(uint64_t ref, unsigned kinds)
{
    struct weft__pending_bucket *bucket = weft__pending_bucket_of(ref);
    bool freeable = false;
    weft__lock(&bucket->lock);
    struct weft__pending_entry *entry = weft__pending_find(bucket, ref);
    bool found = entry && (kinds >> entry->kind & 1);
    if (found) {
        weft__pending_remove_entry(bucket, entry);
        freeable = !is_on_stack(entry) && weft__pending_stop_timer(entry);
    }
    weft__unlock(&bucket->lock);
    if (freeable) {
        weft__pending_entry_free(entry);
    }
    return found;
}

/* --- pending sends ---------------------------------------------------------------------------- */

int weft__pending_queue_send(struct weft__pending_send *send, int64_t deadline)
{
    struct weft__pending_entry *entry = &send->entry;
    struct weft__pending_bucket *bucket = weft__pending_bucket_of((uint32_t)entry->to.id);
    weft__lock(&bucket->lock);
    entry->ref = NO_REF;
    int err = enlist_locked(bucket, entry);
    if (!err) {
        err = weft__admission_enqueue(&send->sender);
        if (err != WEFT__ADMISSION_QUEUED) {
            weft__pending_remove_entry(bucket, entry);
        } else if (deadline != WEFT_FOREVER) {
            weft__deadline_check(deadline);
            entry->deadline = deadline > 0 ? deadline : 0;
            set_timer(entry);
        }
    }
    weft__unlock(&bucket->lock);
    return err;
}

struct weft__envelope *weft__pending_take_send(struct weft__pending_send *send)
{
    struct weft__pending_entry *entry = &send->entry;
    struct weft__pending_bucket *bucket = weft__pending_bucket_of((uint32_t)entry->to.id);
    weft__lock(&bucket->lock);
    struct weft__envelope *envelope = entry->envelope;
    entry->envelope = NULL;
    weft__pending_remove_entry(bucket, entry);
    bool freeable = weft__pending_stop_timer(entry);
    weft__unlock(&bucket->lock);
    if (freeable) {
        weft__pending_entry_free(entry);
    }
    return envelope;
}

bool weft__pending_has_send(weft_pid from, weft_pid to)
{
    struct weft__pending_bucket *bucket = weft__pending_bucket_of((uint32_t)from.id);
    weft__lock(&bucket->lock);
    struct weft__pending_entry *entry = bucket->first;
    while (entry && (entry->kind != WEFT__PENDING_SEND || entry->to.id != from.id ||
                     ((struct weft__pending_send *)(void *)entry)->sender.to.id != to.id)) {
        entry = entry->next;
    }
    weft__unlock(&bucket->lock);
    return entry != NULL;
}

/* The sender has ended: withdraw its message. Returns false if another thread has dequeued it and
 * frees it; its timer is stopped here because the timer's pool may be gone by then. The envelope is
 * prepended to the list; it is not traced any longer, so its `trace` stores the receiver's slot. */
static bool withdraw_send(struct weft__pending_entry *entry, struct weft__link **envelopes)
{
    struct weft__pending_send *send = dequeue_send(entry);
    if (!send) {
        entry->timed = entry->timed && !weft__pending_stop_timer(entry);
        return false;
    }
    struct weft__envelope *envelope = send->sender.envelope;
    weft__envelope_address(envelope, send->sender.to);
    envelope->trace = (uint32_t)send->sender.to.id;
    envelope->link.next = *envelopes;
    *envelopes = &envelope->link;
    return true;
}

static void discard_all(struct weft__link *envelopes)
{
    while (envelopes) {
        struct weft__envelope *envelope = (struct weft__envelope *)(void *)envelopes;
        envelopes = envelopes->next;
        weft__envelope_discard(envelope, envelope->trace);
    }
}

static void drop_all(weft_pid self)
{
    struct weft__pending_bucket *bucket = weft__pending_bucket_of((uint32_t)self.id);
    struct weft__pending_entry *freeable = NULL, *next;
    struct weft__link *envelopes = NULL;
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__lock(&bucket->lock);
    for (struct weft__pending_entry *entry = bucket->first; entry; entry = next) {
        next = entry->next;
        if (entry->to.id != self.id) {
            continue;
        }
        if (entry->kind == WEFT__PENDING_SEND && !withdraw_send(entry, &envelopes)) {
            continue;
        }
        weft__pending_remove_entry(bucket, entry);
        if (entry->kind == WEFT__PENDING_FIBER) {
            weft__cancel(entry->fiber, WEFT__IDENT_CANCEL, &ready);
        } else if (weft__pending_stop_timer(entry)) {
            entry->next = freeable;
            freeable = entry;
        }
    }
    weft__unlock(&bucket->lock);
    weft__place_all(&ready, WEFT__BACK);
    discard_all(envelopes);
    while (freeable) {
        next = freeable->next;
        weft__pending_entry_free(freeable);
        freeable = next;
    }
}

void weft__pending_end_actor(weft_pid self)
{
    drop_all(self);
    weft__pending_end_calls(self);
}
