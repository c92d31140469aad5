/* Looking at supervisors from outside. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

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
    weft__unlock(&lock);
}

void weft__tree_remove(struct weft__supervisor *s)
{
    weft__lock(&lock);
    *s->back = s->next;
    if (s->next) {
        s->next->back = s->back;
    }
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
    static const char *const strategies[] = {"one-for-one", "one-for-all", "rest-for-one",
                                             "dynamic"};
    char pid[64];
    weft_pid_text(s->pid, pid, sizeof pid);
    weft__lock(&s->lock);
    add(text, "%*s%s %s %s, %" PRIu32 " child%s\n", 2 * depth, "",
        s->opts->name ? s->opts->name : "supervisor", pid, strategies[s->policy.strategy],
        s->policy.count, s->policy.count == 1 ? "" : "ren");
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
