/* Fibers that wait in functions with recognizable names, and one that runs: test/obs/gdb inspects
 * them with a debugger, stopped in `look_now`. */
#include <weft/frame.h>

#include "context/stack.h"
#include "pool/fixture.h"

static weft_fiber first;
static weft_event gate = WEFT_EVENT_INIT;
static weft_event other;
static weft_mutex db;

__attribute__((noinline)) static int wait_for_gate(int depth)
{
    int local = depth * 2;
    int err = depth > 0 ? wait_for_gate(depth - 1) : weft_event_wait(&gate, WEFT_FOREVER);
    __asm__ volatile("" : "+r"(local), "+r"(err)); /* no tail call */
    return err;
}

static void *guest(void *arg)
{
    CHECK_EQ(wait_for_gate(3), 0);
    return arg;
}

static void *friend_of_guest(void *arg)
{
    CHECK_EQ(weft_join(first, NULL, WEFT_FOREVER), 0);
    return arg;
}

static void *client(void *arg)
{
    CHECK_EQ(weft_mutex_lock(&db, WEFT_FOREVER), 0);
    weft_mutex_unlock(&db);
    return arg;
}

static void *chooser(void *arg)
{
    struct weft_case cases[] = {weft_case_event(&gate), weft_case_event(&other),
                                weft_case_at(weft_after(1000000000000))};
    CHECK_EQ(weft_select(cases, 3, WEFT_FOREVER), 0);
    return arg;
}

/* Without a stack: a frame that was called by another. */
struct sketch {
    weft_frame frame;
    struct weft_wait wait;
};

static struct sketch outer, inner;

static enum weft_step drawn(weft_frame *f, struct weft_got got)
{
    CHECK_EQ(got.status, 0);
    return weft_frame_return(f, NULL);
}

static enum weft_step draw(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_await_event(f, &((struct sketch *)f)->wait, &gate, WEFT_FOREVER,
                                  WEFT_THEN(drawn));
}

static const struct weft_frame_kind drawing = {.name = "drawing", .start = draw};

static enum weft_step plan(weft_frame *f, struct weft_got got)
{
    (void)got;
    weft_frame_init(&inner.frame, &drawing);
    return weft_frame_call(f, &inner.frame, WEFT_THEN(drawn));
}

static const struct weft_frame_kind planning = {.name = "planning", .start = plan};

__attribute__((noinline)) static void look_now(void)
{
    __asm__ volatile("" ::: "memory");
}

static void *host(void *arg)
{
    weft_fiber second, third, fourth, fifth;
    weft_event_init(&gate, &(struct weft_sync_opts){.name = "gate"});
    weft_event_init(&other, NULL);
    weft_mutex_init(&db, &(struct weft_sync_opts){.name = "db"});
    CHECK_EQ(weft_mutex_lock(&db, WEFT_FOREVER), 0);
    CHECK_EQ(weft_spawn(&first, guest, NULL, &(struct weft_fiber_opts){.name = "guest"}), 0);
    CHECK_EQ(
        weft_spawn(&second, friend_of_guest, NULL, &(struct weft_fiber_opts){.name = "friend"}), 0);
    weft_frame_init(&outer.frame, &planning);
    CHECK_EQ(weft_pool_spawn_frame(weft_pool_self(), &third, &outer.frame,
                                   &(struct weft_fiber_opts){.name = "sketch"}),
             0);
    CHECK_EQ(weft_spawn(&fourth, client, NULL, &(struct weft_fiber_opts){.name = "client"}), 0);
    CHECK_EQ(weft_spawn(&fifth, chooser, NULL, &(struct weft_fiber_opts){.name = "chooser"}), 0);
    await_state(first, WEFT_FIBER_WAITING);
    await_state(second, WEFT_FIBER_WAITING);
    await_state(third, WEFT_FIBER_WAITING);
    await_state(fourth, WEFT_FIBER_WAITING);
    await_state(fifth, WEFT_FIBER_WAITING);
    look_now();
    weft_event_set(&gate);
    weft_mutex_unlock(&db);
    CHECK_EQ(weft_join(second, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(third, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(fourth, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(fifth, NULL, WEFT_FOREVER), 0);
    return arg;
}

/* With guards that are separate mappings, which gdb's gcore can read past, and with the default
 * guards. */
TEST(waiting_fibers_with_mprotect_guards)
{
    weft__stack_limit_guard(WEFT__GUARD_MPROTECT);
    run_in_fiber(2, host, NULL);
}

TEST(waiting_fibers_with_default_guards)
{
    run_in_fiber(2, host, NULL);
}
