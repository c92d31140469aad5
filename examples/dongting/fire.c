/* Dongting: fireFiber, fireXxx, doInDispatcherThread: the calls for other threads. The group takes
 * all posted work at once, and refuses it once the group has finished; inside the group a post is a
 * direct call. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <weft/weft.h>

enum { THREADS = 4, EACH = 1000 };

static weft_group *group;
static long total; /* belongs to the group: no lock, no atomic */

static void add(void *arg)
{
    total += (long)arg;
}

/* The same without an allocation, in caller-provided memory. */
struct message {
    struct weft_post post;
    long number;
};

static void add_message(struct weft_post *post)
{
    total += ((struct message *)post)->number;
}

static void *fire(void *arg)
{
    struct message *message = arg;
    for (int i = 1; i < EACH; i++) {
        weft_group_post(group, add, (void *)1);
    }
    weft_group_submit(group, &message->post);
    return NULL;
}

static void *inside(void *arg)
{
    long before = total;
    weft_group_post(group, add, (void *)5); /* called at once */
    *(bool *)arg = total == before + 5;
    return NULL;
}

int main(void)
{
    static struct message messages[THREADS];
    pthread_t threads[THREADS];
    weft_dispatcher *dispatcher;
    weft_fiber fiber;
    bool on_the_spot = false;
    if (weft_dispatcher_create(&dispatcher, NULL) || weft_dispatcher_start(dispatcher) ||
        weft_group_create(dispatcher, &group, NULL) ||
        weft_group_spawn(group, &fiber, inside, &on_the_spot, NULL)) { /* group.fireFiber(...) */
        return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        messages[i] = (struct message){.post = {.fn = add_message}, .number = 1};
        if (pthread_create(&threads[i], NULL, fire, &messages[i])) {
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    weft_join(fiber, NULL, WEFT_FOREVER);
    weft_group_stop(group);
    weft_future_wait(weft_group_finished(group), WEFT_FOREVER);
    int refused = weft_group_post(group, add, (void *)1);
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    printf("%ld fired, %s\n", total, refused == -ESHUTDOWN ? "then refused" : "and not refused");
    return total != THREADS * EACH + 5 || !on_the_spot || refused != -ESHUTDOWN;
}
