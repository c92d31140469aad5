/* Looking at supervisors from outside. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "actor/look.h"
#include "actor/supervisor.h"

static struct weft__lock lock;
static struct weft__supervisor *all; /* under it */

void weft__tree_add(struct weft__supervisor *s)
{
    weft__lock(&lock);
    s->next = all;
    s->back = &all;
    if (all) {
        all->back = &s->next;
    }
    all = s;
    s->listed = true; /* nobody knows it yet */
    weft__unlock(&lock);
}

void weft__tree_remove(struct weft__supervisor *s)
{
    weft__lock(&lock);
    weft__lock(&s->lock);
    *s->back = s->next;
    if (s->next) {
        s->next->back = s->back;
    }
    s->listed = false;
    weft__unlock(&s->lock);
    weft__unlock(&lock);
}

/* Under the lock. */
static struct weft__supervisor *find(weft_pid pid)
{
    struct weft__supervisor *s = all;
    while (s && !weft_pid_equal(s->pid, pid)) {
        s = s->next;
    }
    return s;
}

const char *weft_child_state_name(enum weft_child_state state)
{
    static const char *const names[] = {"waiting", "running", "stopping", "stopped", "failed"};
    return (unsigned)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

/* Under the supervisor's lock. */
static struct weft_child_info info_of(const struct weft__supervisor *s, uint32_t i)
{
    const struct weft__child *child = &s->children[i];
    return (struct weft_child_info){
        .name = child->spec->name,
        .pid = child->pid,
        .state = (enum weft_child_state)s->policy.children[i].state,
        .restarts = child->starts ? child->starts - 1 : 0,
        .error = child->error,
    };
}

int64_t weft_supervisor_children(weft_pid supervisor, struct weft_child_info *out, size_t room)
{
    int64_t count = -ESRCH;
    weft__lock(&lock);
    struct weft__supervisor *s = find(supervisor);
    if (s) {
        weft__lock(&s->lock);
        count = s->policy.count;
        for (uint32_t i = 0; i < s->policy.count && i < room; i++) {
            out[i] = info_of(s, i);
        }
        weft__unlock(&s->lock);
    }
    weft__unlock(&lock);
    return count;
}

/* --- all of them ------------------------------------------------------------------------------ */

static const char *strategy_of(const struct weft__supervisor *s)
{
    static const char *const names[] = {"one-for-one", "one-for-all", "rest-for-one", "dynamic"};
    return names[s->policy.strategy];
}

/* As much as there is room for. It may be called by a handler of a signal. */
static void copy_name(char *to, size_t size, const char *name)
{
    size_t i = 0;
    for (; name && name[i] && i < size - 1; i++) {
        to[i] = name[i];
    }
    to[i] = 0;
}

static void team_locked(const struct weft__supervisor *s, struct weft__team *out)
{
    *out = (struct weft__team){
        .strategy = strategy_of(s),
        .children = s->policy.count,
        .down = s->policy.count - s->policy.up,
        .restarts = s->policy.restarted,
    };
    copy_name(out->name, sizeof out->name, s->opts->name);
}

static void seat_locked(const struct weft__supervisor *s, uint32_t child, struct weft__seat *out)
{
    struct weft_child_info info = info_of(s, child);
    *out = (struct weft__seat){
        .of = s->pid.id,
        .state = weft_child_state_name(info.state),
        .restarts = info.restarts,
    };
    copy_name(out->name, sizeof out->name, info.name);
}

static void visit_one(struct weft__supervisor *s, const struct weft__tree_visitor *visitor)
{
    struct weft__team team;
    struct weft__seat seat;
    weft__lock(&s->lock);
    team_locked(s, &team);
    visitor->team(s->pid, &team, visitor->arg);
    for (uint32_t i = s->policy.count; i-- > 0;) {
        seat_locked(s, i, &seat);
        visitor->seat(s->children[i].pid, &seat, s->children[i].error, visitor->arg);
    }
    weft__unlock(&s->lock);
}

void weft__tree_visit(const weft_host *host, const struct weft__tree_visitor *visitor)
{
    weft__lock(&lock);
    for (struct weft__supervisor *s = all; s; s = s->next) {
        if (s->host == host) {
            visit_one(s, visitor);
        }
    }
    weft__unlock(&lock);
}

/* --- one of them, without waiting ------------------------------------------------------------- */

/* Its own, if this very actor is a supervisor, locked: while the actor is. NULL: it is none, any more, or is busy. */
static struct weft__supervisor *hold(const weft_actor *actor, weft_fiber id)
{
    uint64_t gate = atomic_load_explicit(&actor->gate, memory_order_acquire);
    if (weft__gate_generation(gate) != (uint32_t)(id >> 32) + 1 ||
        actor->kind != &weft__supervisor_kind) {
        return NULL;
    }
    struct weft__supervisor *s = actor->state;
    if (!weft__lock_soon(&s->lock)) {
        return NULL;
    }
    if (!s->listed) {
        weft__unlock(&s->lock);
        return NULL;
    }
    return s;
}

static void glance_above(const weft_actor *above, weft_fiber id, weft_pid pid,
                         struct weft__seat *seat)
{
    struct weft__supervisor *s = hold(above, id);
    uint32_t child = s ? weft__child_find(s, pid) : UINT32_MAX;
    if (child != UINT32_MAX) {
        seat_locked(s, child, seat);
    }
    if (s) {
        weft__unlock(&s->lock);
    }
}

void weft__tree_glance(const weft_actor *actor, struct weft__team *team, struct weft__seat *seat)
{
    struct weft__supervisor *s = hold(actor, actor->self);
    if (s) {
        team_locked(s, team);
        weft__unlock(&s->lock);
    }
    weft_actor *above = actor->parent ? weft__actor_find((uint32_t)actor->parent) : NULL;
    if (above && weft__lock_soon(&above->lock)) {
        glance_above(above, actor->parent, weft_actor_pid(actor), seat);
        weft__unlock(&above->lock);
    }
}

/* --- a tree for people ------------------------------------------------------------------------ */

struct text {
    char *at;
    size_t left;
    int length; /* of all, also of what had no room */
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text->at, text->left, format, args);
    va_end(args);
    if (n > 0) {
        size_t used = (size_t)n < text->left ? (size_t)n : text->left ? text->left - 1 : 0;
        text->at += used;
        text->left -= used;
        text->length += n;
    }
}

static void print_child(struct text *text, const struct weft_child_info *info, int depth)
{
    char pid[64] = "";
    if (!weft_pid_is_none(info->pid)) {
        weft_pid_text(info->pid, pid, sizeof pid);
    }
    add(text, "%*s%s%s%s %s", 2 * depth, "", info->name ? info->name : "child", *pid ? " " : "",
        pid, weft_child_state_name(info->state));
    if (info->restarts) {
        add(text, ", %" PRIu64 " restart%s", info->restarts, info->restarts == 1 ? "" : "s");
    }
    if (info->error) {
        add(text, ", last error %d", info->error);
    }
    add(text, "\n");
}

static void print(struct text *text, struct weft__supervisor *s, int depth)
{
    char pid[64];
    weft_pid_text(s->pid, pid, sizeof pid);
    weft__lock(&s->lock);
    add(text, "%*s%s %s %s, %" PRIu32 " child%s\n", 2 * depth, "",
        s->opts->name ? s->opts->name : "supervisor", pid, strategy_of(s), s->policy.count,
        s->policy.count == 1 ? "" : "ren");
    for (uint32_t i = 0; i < s->policy.count; i++) {
        struct weft_child_info info = info_of(s, i);
        struct weft__supervisor *below =
            s->children[i].spec->supervisor ? find(s->children[i].pid) : NULL;
        print_child(text, &info, depth + 1);
        if (below) { /* its lock comes after its supervisor's, always */
            print(text, below, depth + 2);
        }
    }
    weft__unlock(&s->lock);
}

int weft_supervisor_print(weft_pid supervisor, char *buf, size_t size)
{
    struct text text = {.at = buf, .left = size};
    weft__lock(&lock);
    struct weft__supervisor *s = find(supervisor);
    if (s) {
        print(&text, s, 0);
    }
    weft__unlock(&lock);
    return s ? text.length : -ESRCH;
}
