/* not under: valgrind */
/* A waiting frame fiber in the dump: its name, the object it waits on, and its frames. */
#include "frame/fixture.h"
#include "obs/reports.h"

struct waits {
    weft_frame frame;
    struct weft_wait wait;
    weft_cond *cond;
    struct waits *sub;
    weft_fiber fiber;
    int ends[2];
    int how;
};

static unsigned inner_line, outer_line;

static enum weft_step ends(weft_frame *f, struct weft_got got)
{
    return weft_frame_return(f, got.value);
}

static enum weft_step inner_starts(weft_frame *f, struct weft_got got)
{
    SELF(waits);
    (void)got;
    const struct weft_resume_point *then = WEFT_THEN(ends);
    inner_line = then->line;
    switch (self->how) {
    case 0:
        return weft_frame_await_cond(f, &self->wait, self->cond, weft_after(3600 * 1000 * MS),
                                     then);
    case 1:
        return weft_frame_sleep(f, weft_after(3600 * 1000 * MS), then);
    case 2:
        return weft_frame_park(f, WEFT_FOREVER, then);
    case 3:
        return weft_frame_await_join(f, &self->wait, self->fiber, WEFT_FOREVER, then);
    default:
        return weft_frame_await_fd(f, &self->wait, self->ends[0], WEFT_READABLE, WEFT_FOREVER,
                                   then);
    }
}

static enum weft_step outer_starts(weft_frame *f, struct weft_got got)
{
    SELF(waits);
    (void)got;
    const struct weft_resume_point *then = WEFT_THEN(ends);
    outer_line = then->line;
    return weft_frame_call(f, &self->sub->frame, then);
}

static const struct weft_frame_kind inner_kind = {.name = "asking", .start = inner_starts};
static const struct weft_frame_kind outer_kind = {.name = "election", .start = outer_starts};

static char text[65536];

static const char *dump(const struct weft_dump_opts *opts)
{
    FILE *out = fmemopen(text, sizeof text, "w");
    CHECK(out);
    CHECK_EQ(weft_dump(out, opts), 0);
    fclose(out);
    return text;
}

static void has(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void has(const char *format, ...)
{
    char part[512];
    va_list args;
    va_start(args, format);
    vsnprintf(part, sizeof part, format, args);
    va_end(args);
    if (!strstr(text, part)) {
        fprintf(stderr, "no \"%s\" in:\n%s\n", part, text);
    }
    CHECK(strstr(text, part));
}

static void open_two(struct waits *outer, struct waits *inner, weft_cond *cond, int how)
{
    *outer = (struct waits){.sub = inner};
    *inner = (struct waits){.cond = cond, .how = how, .ends = {-1, -1}};
    weft_frame_init(&outer->frame, &outer_kind);
    weft_frame_init(&inner->frame, &inner_kind);
}

EACH_HOME(dump_of_frame_fiber_shows_frames_instead_of_backtrace)
{
    struct waits outer, inner;
    weft_cond votes;
    char id[32];
    weft_cond_init(&votes, &(struct weft_sync_opts){.name = "votes"});
    open_two(&outer, &inner, &votes, 0);
    weft_fiber fiber = home_waiting(home, &outer.frame);
    weft_fiber_format(fiber, id, sizeof id);
    dump(NULL);
    has("1 fiber waiting: condition\n  %s election pool=", id);
    has(" since=");
    has(" on=0x%lx votes\n"
        "    in asking, then ends (%s:%u)\n"
        "    in election, then ends (%s:%u)\n",
        (unsigned long)(uintptr_t)&votes, __FILE__, inner_line, __FILE__, outer_line);
    dump(&(struct weft_dump_opts){.format = WEFT_DUMP_JSON});
    has("\"waits\":\"condition\"");
    has("{\"id\":\"%s\",\"name\":\"election\"", id);
    has("\"name\":\"votes\"");
    has("\"frames\":[{\"frame\":\"asking\",\"step\":\"ends\",\"file\":\"%s\",\"line\":%u},"
        "{\"frame\":\"election\",\"step\":\"ends\",\"file\":\"%s\",\"line\":%u}]",
        __FILE__, inner_line, __FILE__, outer_line);
    dump(&(struct weft_dump_opts){.no_frames = true});
    CHECK(!strstr(text, "    in asking"));
    dump(&(struct weft_dump_opts){.max_frames = 1});
    has("    in asking, ");
    CHECK(!strstr(text, "    in election"));
    weft_cond_signal(&votes);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    weft_cond_deinit(&votes);
}

EACH_HOME(dump_groups_frame_fibers_with_same_wait)
{
    enum { MANY = 5 };
    struct waits outer[MANY], inner[MANY];
    weft_fiber fibers[MANY];
    weft_cond votes;
    weft_cond_init(&votes, NULL);
    for (int i = 0; i < MANY; i++) {
        open_two(&outer[i], &inner[i], &votes, 0);
        fibers[i] = home_waiting(home, &outer[i].frame);
    }
    dump(&(struct weft_dump_opts){.max_shown = 2});
    has("5 fibers waiting: condition\n");
    has("  ... and 3 more\n    in asking, ");
    weft_cond_broadcast(&votes);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    weft_cond_deinit(&votes);
}

EACH_HOME(dump_prefers_explicit_name_over_frame_name)
{
    struct waits outer, inner;
    weft_cond votes;
    weft_fiber fiber;
    weft_cond_init(&votes, NULL);
    open_two(&outer, &inner, &votes, 0);
    CHECK_EQ(home->pool ? weft_pool_spawn_frame(home->pool, &fiber, &outer.frame,
                                                &(struct weft_fiber_opts){.name = "chosen"})
                        : weft_group_spawn_frame(home->group, &fiber, &outer.frame,
                                                 &(struct weft_member_opts){.name = "chosen"}),
             0);
    await_state(fiber, WEFT_FIBER_WAITING);
    dump(NULL);
    has(" chosen pool=");
    CHECK(!strstr(text, " election pool="));
    weft_cond_signal(&votes);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    weft_cond_deinit(&votes);
}

EACH_HOME(dump_shows_wait_object_of_frame_fiber)
{
    static const char *const shown[] = {"condition", "sleep", "park", "join", "readiness"};
    weft_cond votes;
    struct waits forever, unused;
    weft_cond_init(&votes, NULL);
    open_two(&unused, &forever, &votes, 2);
    weft_fiber other = home_waiting(home, &forever.frame);
    for (int how = 1; how < 5; how++) {
        struct waits outer, inner;
        open_two(&outer, &inner, &votes, how);
        inner.fiber = other;
        CHECK_EQ(pipe(inner.ends), 0);
        weft_fiber fiber = home_waiting(home, &outer.frame);
        char id[32];
        weft_fiber_format(other, id, sizeof id);
        dump(NULL);
        has(" fiber waiting: %s\n", shown[how]);
        if (how == 3) {
            has(" on=%s asking\n", id);
        } else if (how == 4) {
            has(" on=fd %d\n", inner.ends[0]);
        }
        CHECK_EQ(weft_fiber_interrupt(fiber), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), -EINTR);
        weft_close(inner.ends[0]);
        close(inner.ends[1]);
    }
    CHECK_EQ(weft_fiber_unpark(other), 0);
    CHECK_EQ(weft_join(other, NULL, WEFT_FOREVER), 0);
    weft_cond_deinit(&votes);
    take_reports();
}

/* --- a frame that cannot be woken is detected like other fibers ------------------------------- */

static void waits_for_ever(void *arg)
{
    struct waits outer, inner;
    weft_dispatcher *d;
    weft_group *group;
    weft_fiber fiber;
    (void)arg;
    ignore_other_threads();
    open_two(&outer, &inner, NULL, 2);
    CHECK_EQ(weft_dispatcher_create(&d, &(struct weft_dispatcher_opts){.caller = true}), 0);
    CHECK_EQ(weft_group_create(d, &group, NULL), 0);
    CHECK_EQ(weft_group_spawn_frame(group, &fiber, &outer.frame, NULL), 0);
    weft_group_stop(group);
    CHECK_EQ(weft_dispatcher_run(d), -EDEADLK);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(weft_dispatcher_run(d), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(weft_dispatcher_stop(d, NULL, 0, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(d);
}

TEST(frame_waiting_forever_is_reported_as_deadlock)
{
    int status = check_child(waits_for_ever, NULL, text, sizeof text);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        check_fail(__FILE__, __LINE__, "status %x:\n%s", (unsigned)status, text);
    }
    has("weft: deadlock: all fibers wait");
    has(" election waits on park");
}
