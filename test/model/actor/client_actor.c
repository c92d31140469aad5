/* Clients of src/host and src/mailbox: an actor that becomes idle, ends, and is followed by another
 * actor in its slot, against threads that send, complete and kill. Thread 0 is the worker that runs
 * the actor, the others are plain threads. */
#include "model/actor/one_actor.h"

void weft__pending_send_complete(struct weft__pending_send *send, int error)
{
    (void)send, (void)error;
    x_fail("nobody waits for room");
}

/* --- a message against becoming idle ---------------------------------------------------------- */

static void setup_for(int count)
{
    setup_with(count, WEFT_MAILBOX_REFUSE, 4);
}

static void setup_one(void)
{
    setup_for(1);
}

static void send_against_sleep(int i)
{
    if (i == 0) {
        serve();
    } else {
        X_ASSERT(weft_actor_send(pid, "x", 0, NULL, WEFT_BY_POLICY) == 0);
    }
}

static void one_came(void)
{
    rest(1);
    X_ASSERT(messages == 1 && x_counted(BURIED) == 0);
}

static void setup_four(void)
{
    setup_for(4);
}

/* Two messages from each of two senders, in order. */
static void two_send(int i)
{
    if (i == 0) {
        serve();
    } else {
        for (uint64_t k = 0; k < 2; k++) {
            X_ASSERT(weft_actor_send(pid, "x", (uint64_t)(i - 1) * 10 + k, NULL, WEFT_BY_POLICY) ==
                     0);
        }
    }
}

static void four_came(void)
{
    rest(1);
    X_ASSERT(messages == 4 && x_counted(BURIED) == 0);
}

/* --- a completion against a wait for it ------------------------------------------------------- */

static void setup_asking(void)
{
    setup_for(2);
    asks = true;
}

static void complete_against_wait(int i)
{
    if (i == 0) {
        serve();
    } else if (i == 1) {
        X_ASSERT(weft_actor_send(pid, "x", 0, NULL, WEFT_BY_POLICY) == 0);
    } else {
        while (atomic_load_explicit(&asked, memory_order_acquire) == 0) {
            weft__futex_wait(&asked, 0, INT64_MAX);
        }
        X_ASSERT(weft_command_complete(pid, 0, 0, NULL) == 0);
    }
}

static void both_came(void)
{
    rest(1);
    X_ASSERT(messages == 1 && completions == 1 && x_counted(BURIED) == 0);
}

/* --- messages against the end ----------------------------------------------------------------- */

static void setup_none(void)
{
    setup_for(0);
}

static void send_against_exit(int i)
{
    if (i == 0) {
        serve();
    } else {
        sends_to(pid, (uint64_t)(i - 1) * 10);
    }
}

/* The send of a refused message has released it as a dead letter. */
static void none_lost(void)
{
    rest(1);
    X_ASSERT(x_counted(SEEN) + x_counted(BURIED) == 2);
    X_ASSERT(x_counted(SEEN) <= taken);
}

static void kill_against_exit(int i)
{
    if (i == 0) {
        serve();
    } else {
        int err = weft_actor_kill(pid);
        X_ASSERT(err == 0 || err == -ESRCH);
    }
}

static void killed(void)
{
    rest(1);
}

/* --- messages against the next actor of the slot ---------------------------------------------- */

static void send_against_reuse(int i)
{
    if (i == 0) {
        serve_two(0);
    } else {
        sends_to(pid, 10);
    }
}

static void none_crossed(void)
{
    rest(2);
    X_ASSERT(x_counted(SEEN) + x_counted(BURIED) == 2);
}

static const struct x_client clients[] = {
    X_CLIENT("send_against_sleep", 2, setup_one, send_against_sleep, one_came, .preemptions = 3,
             .stale = 2),
    X_CLIENT("send_against_exit", 3, setup_none, send_against_exit, none_lost, .preemptions = 2,
             .stale = 2),
    X_CLIENT("kill_against_exit", 2, setup_none, kill_against_exit, killed),
    X_CLIENT("send_against_reuse", 2, setup_none, send_against_reuse, none_crossed,
             .preemptions = 3, .stale = 1),
    X_CLIENT("complete_against_wait", 3, setup_asking, complete_against_wait, both_came,
             .preemptions = 2, .stale = 2),
    X_CLIENT("two_send", 3, setup_four, two_send, four_came, .preemptions = 1, .stale = 1),
};

X_MAIN(clients)
