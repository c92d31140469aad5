/* Dead letters: messages that no actor reads.
 *
 * The thread that finds one calls the host's callback, maybe while the host is being destroyed. It
 * first increments a count and then reads the callback; weft_host_destroy first clears the callback
 * and then waits until the count is zero. Both write before they read (seq_cst), so a callback that
 * was cleared is never called.
 */
#include <errno.h>
#include <sched.h>

#include "base/nonnull.h"
#include "mailbox/pending.h"
#include "remote/route.h"

int weft_host_on_dead_letter(weft_host *host, weft_dead_letter_fn fn, void *arg)
{
    WEFT__NONNULL(host);
    int err = 0;
    weft__lock(&host->lock);
    if (atomic_load_explicit(&host->frozen, memory_order_relaxed)) {
        err = -EBUSY;
    } else {
        host->on_dead_arg = arg;
        atomic_store_explicit(&host->on_dead, fn, memory_order_seq_cst); /* pairs: report */
    }
    weft__unlock(&host->lock);
    return err;
}

void weft__dead_letters_close(weft_host *host)
{
    atomic_store_explicit(&host->on_dead, NULL, memory_order_seq_cst); /* pairs: report */
    while (atomic_load_explicit(&host->on_dead_calls, memory_order_seq_cst) != 0) {
        sched_yield();
    }
}

static void report(weft_host *host, const struct weft_dead_letter *dead)
{
    atomic_fetch_add_explicit(&host->on_dead_calls, 1, memory_order_seq_cst); /* pairs: close */
    weft_dead_letter_fn fn = atomic_load_explicit(&host->on_dead, memory_order_seq_cst);
    if (fn) {
        fn(host, dead, host->on_dead_arg);
    }
    atomic_fetch_sub_explicit(&host->on_dead_calls, 1, memory_order_seq_cst);
}

void weft__dead_letter_report(weft_host *host, const struct weft_dead_letter *dead)
{
    atomic_fetch_add_explicit(&host->dead, 1, memory_order_relaxed);
    if (atomic_load_explicit(&host->on_dead, memory_order_relaxed)) {
        report(host, dead);
    }
}

void weft__envelope_discard(struct weft__envelope *envelope, uint32_t slot)
{
    weft_host *host = weft__envelope_is_message(envelope) ? weft__host_at(envelope->to_host) : NULL;
    if (host) {
        weft__dead_letter_report(
            host, &(struct weft_dead_letter){
                      .to = {.node = weft__node(),
                             .host = envelope->to_host,
                             .id = (uint64_t)(envelope->generation - 1) << 32 | slot},
                      .from = {.node = envelope->from_node,
                               .host = envelope->from_host,
                               .id = envelope->from_id},
                      .topic = envelope->topic,
                      .tag = envelope->tag,
                      .buf = envelope->buf,
                  });
    }
    if (weft__envelope_is_call(envelope)) { /* it gets no reply */
        weft__pending_reply(envelope->tag, envelope->error ? envelope->error : -EOWNERDEAD, NULL);
    }
    weft__envelope_free(envelope);
}

void weft__envelopes_discard(struct weft__link *envelopes, uint32_t slot)
{
    while (envelopes) {
        struct weft__link *next = envelopes->next;
        weft__envelope_discard((struct weft__envelope *)(void *)envelopes, slot);
        envelopes = next;
    }
}
