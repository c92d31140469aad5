/* Dongting: readyFibers, readyFibersNextRound1, readyFibersNextRound2: the order in which fibers
 * run. A wake by an object goes to the front, a new fiber to the back (or to the front by option),
 * a yield to the next turn; a fiber that has used up its wakes for this round also waits for the
 * next turn. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static char order[64];
static weft_cond cond;
static int waiting;

static void note(const char *what)
{
    strncat(order, what, sizeof order - strlen(order) - 1);
}

static void *waiter(void *name)
{
    waiting++;
    weft_cond_wait(&cond, NULL, WEFT_FOREVER);
    note(name);
    return NULL;
}

static void *starter(void *name)
{
    note(name);
    return NULL;
}

static void *yielder(void *name)
{
    weft_yield();
    note(name);
    return NULL;
}

static void *first(void *arg)
{
    static char a[] = "a", b[] = "b", c[] = "c", n[] = "n", y[] = "y", f[] = "f";
    weft_spawn(NULL, waiter, a, NULL);
    weft_spawn(NULL, waiter, b, NULL);
    weft_spawn(NULL, waiter, c, NULL);
    do { /* on a busy machine the deadline may pass before the sleep begins */
        weft_sleep(weft_after(WEFT_MS(1)));
    } while (waiting < 3); /* all wait; in the new round each may be woken once */
    weft_spawn(NULL, yielder, y, NULL);
    weft_spawn(NULL, starter, n, NULL);
    weft_cond_signal(&cond);       /* a, to the front */
    weft_cond_signal_later(&cond); /* b, after the ready fibers */
    weft_cond_broadcast(&cond);    /* c and all other waiters, before a */
    weft_group_spawn(weft_group_self(), NULL, starter, f,
                     &(struct weft_member_opts){.front = true}); /* start(fiber, addFirst) */
    return arg;
}

int main(void)
{
    weft_dispatcher *dispatcher;
    weft_group *group;
    if (weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.caller = true}) ||
        weft_group_create(dispatcher, &group, NULL) ||
        weft_group_spawn(group, NULL, first, NULL, NULL)) {
        return 1;
    }
    weft_cond_init(&cond, &(struct weft_sync_opts){.group = group});
    weft_group_stop(group);
    int err = weft_dispatcher_run(dispatcher);
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    printf("order: %s\n", order);
    return err || strcmp(order, "fcanby") != 0;
}
