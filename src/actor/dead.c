/* Dead letters: messages that no actor reads.
 *
 * The thread that finds one calls the host's callback, maybe while the host is being destroyed. It
 * first increments a count and then reads the callback; weft_host_destroy first clears the callback
 * and then waits until the count is zero. Both write before they read (seq_cst), so a callback that
 * was cleared is never called.
 */
#include <errno.h>
#include <sched.h>

#include "actor/ledger.h"
#include "actor/route.h"
#include "base/need.h"

int weft_host_on_dead_letter(weft_host *host, weft_dead_letter_fn fn, void *arg)
{
    WEFT__NEED(host);
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

static void tell(weft_host *host, const struct weft_dead_letter *letter)
{
    atomic_fetch_add_explicit(&host->on_dead_calls, 1, memory_order_seq_cst); /* pairs: close */
    weft_dead_letter_fn fn = atomic_load_explicit(&host->on_dead, memory_order_seq_cst);
    if (fn) {
        fn(host, letter, host->on_dead_arg);
    }
    atomic_fetch_sub_explicit(&host->on_dead_calls, 1, memory_order_seq_cst);
}

void weft__dead_letter_tell(weft_host *host, const struct weft_dead_letter *letter)
{
    atomic_fetch_add_explicit(&host->dead, 1, memory_order_relaxed);
    if (atomic_load_explicit(&host->on_dead, memory_order_relaxed)) {
        tell(host, letter);
    }
}

void weft__letter_bury(struct weft__letter *letter, uint32_t slot)
{
    weft_host *host = weft__letter_is_message(letter) ? weft__host_at(letter->to_host) : NULL;
    if (host) {
        weft__dead_letter_tell(host,
                               &(struct weft_dead_letter){
                                   .to = {.node = weft__node(),
                                          .host = letter->to_host,
                                          .id = (uint64_t)(letter->generation - 1) << 32 | slot},
                                   .from = {.node = letter->from_node,
                                            .host = letter->from_host,
                                            .id = letter->from_id},
                                   .topic = letter->topic,
                                   .tag = letter->tag,
                                   .buf = letter->buf,
                               });
    }
    if (weft__letter_is_call(letter)) { /* it gets no reply */
        weft__ledger_answer(letter->tag, letter->error ? letter->error : -EOWNERDEAD, NULL);
    }
    weft__letter_free(letter);
}

void weft__letters_bury(struct weft__link *letters, uint32_t slot)
{
    while (letters) {
        struct weft__link *next = letters->next;
        weft__letter_bury((struct weft__letter *)(void *)letters, slot);
        letters = next;
    }
}
