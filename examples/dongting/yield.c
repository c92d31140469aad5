/* Dongting: "avoid long blocking": a long operation that yields after every 100 of 1000 pieces of
 * work, so that the other fibers of its group, and other groups, get their turn. */
#include <stdio.h>
#include <weft/weft.h>

enum { PIECES = 1000, AT_ONCE = 100 };

static int meanwhile;
static bool done;

struct operation {
    weft_frame frame;
    int next;
    long sum;
};

static enum weft_step operate(weft_frame *f, struct weft_got got)
{
    struct operation *self = (struct operation *)f;
    (void)got;
    while (self->next < PIECES) {
        self->sum += self->next++; /* performOperation(i) */
        if (self->next % AT_ONCE == 0) {
            return weft_frame_yield(f, WEFT_THEN(operate)); /* return Fiber.yield(this) */
        }
    }
    done = true;
    return weft_frame_return(f, NULL);
}

static const struct weft_frame_kind operation_kind = {.name = "long", .start = operate};

static void *other(void *arg)
{
    while (!done) {
        meanwhile++;
        weft_yield();
    }
    return arg;
}

int main(void)
{
    weft_dispatcher *dispatcher;
    weft_group *group;
    static struct operation operation;
    weft_frame_init(&operation.frame, &operation_kind);
    if (weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.caller = true}) ||
        weft_group_create(dispatcher, &group, NULL) ||
        weft_group_spawn_frame(group, NULL, &operation.frame, NULL) ||
        weft_group_spawn(group, NULL, other, NULL, NULL)) {
        return 1;
    }
    weft_group_stop(group);
    int err = weft_dispatcher_run(dispatcher);
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    printf("sum %ld; the other ran %d times meanwhile\n", operation.sum, meanwhile);
    return err || operation.sum != (long)PIECES * (PIECES - 1) / 2 || meanwhile < PIECES / AT_ONCE;
}
