/* Supervisor info: the global list of supervisors, and reading it from other threads. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "actorinfo/actor_info.h"
#include "base/objname.h"
#include "supervisor/supervisor.h"
#include "task/fork.h"

#define BATCH_CHILDREN 32u    /* children read per critical section */
#define PRINT_CHILDREN 8u     /* children printed per critical section */
#define SKIP_SUPERVISORS 256u /* supervisors of other hosts skipped per critical section */

/* A position in the list that is kept without a lock: a supervisor that is removed advances the
 * positions that point to it. */
struct cursor {
    struct weft__supervisor *at; /* NULL: at the end */
    uint32_t left;               /* upper bound of its children that have not been read yet */
    bool started;
    struct cursor *next, **back;
};

static struct weft__lock lock;
static struct weft__supervisor *all; /* under the lock */
static struct cursor *cursors;       /* under the lock, with their contents */

static void fork_prepare(void)
{
    weft__lock(&lock);
}

static void fork_parent(void)
{
    weft__unlock(&lock);
}

/* The forked child process has no actors, and every position belongs to another thread. */
static void fork_child(void)
{
    all = NULL;
    cursors = NULL;
    weft__unlock(&lock);
}

static void register_fork_hook(void)
{
    static struct weft__fork_hook hook = {fork_prepare, fork_parent, fork_child, NULL};
    weft__fork_hook(&hook);
}

void weft__supervisors_add(struct weft__supervisor *s)
{
    static struct weft__fork_once once;
    weft__fork_once(&once, register_fork_hook);
    weft__lock(&lock);
    s->next = all;
    s->back = &all;
    if (all) {
        all->back = &s->next;
    }
    all = s;
    s->listed = true; /* no other thread knows it yet */
    weft__unlock(&lock);
}

static void cursor_advance_locked(struct cursor *cursor)
{
    cursor->at = cursor->at->next;
    cursor->left = UINT32_MAX;
    cursor->started = false;
}

void weft__supervisors_remove(struct weft__supervisor *s)
{
    weft__lock(&lock);
    for (struct cursor *cursor = cursors; cursor; cursor = cursor->next) {
        if (cursor->at == s) {
            cursor_advance_locked(cursor);
        }
    }
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

/* Start at this supervisor, or with NULL at the first one. Returns the supervisor. */
static struct weft__supervisor *cursor_open(struct cursor *cursor, const weft_pid *pid)
{
    weft__lock(&lock);
    struct weft__supervisor *s = pid ? find(*pid) : all;
    *cursor = (struct cursor){.at = s, .left = UINT32_MAX, .next = cursors, .back = &cursors};
    if (cursors) {
        cursors->back = &cursor->next;
    }
    cursors = cursor;
    weft__unlock(&lock);
    return s;
}

static void cursor_close(struct cursor *cursor)
{
    weft__lock(&lock);
    *cursor->back = cursor->next;
    if (cursor->next) {
        cursor->next->back = cursor->back;
    }
    weft__unlock(&lock);
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

int64_t weft_supervisor_children(weft_pid supervisor, struct weft_child_info *out, size_t capacity)
{
    int64_t count = -ESRCH;
    weft__lock(&lock);
    struct weft__supervisor *s = find(supervisor);
    if (s) {
        weft__lock(&s->lock);
        count = s->policy.count;
        for (uint32_t i = 0; i < s->policy.count && i < capacity; i++) {
            out[i] = info_of(s, i);
        }
        weft__unlock(&s->lock);
    }
    weft__unlock(&lock);
    return count;
}

/* --- visit every supervisor ------------------------------------------------------------------- */

static const char *strategy_of(const struct weft__supervisor *s)
{
    static const char *const names[] = {"one-for-one", "one-for-all", "rest-for-one", "dynamic"};
    return names[s->policy.strategy];
}

/* Truncates if necessary. Async-signal-safe. */
static void copy_name(char *to, size_t size, const char *name)
{
    weft__objname_truncate(to, size, name ? name : "");
}

static void supervisor_info_locked(const struct weft__supervisor *s,
                                   struct weft__supervisor_info *out)
{
    *out = (struct weft__supervisor_info){
        .strategy = strategy_of(s),
        .children = s->policy.count,
        .down = s->policy.count - s->policy.up,
        .restarts = s->policy.restarted,
    };
    copy_name(out->name, sizeof out->name, s->opts->name);
}

static void child_info_locked(const struct weft__supervisor *s, uint32_t child,
                              struct weft__child_info *out)
{
    struct weft_child_info info = info_of(s, child);
    *out = (struct weft__child_info){
        .of = s->pid.id,
        .state = weft_child_state_name(info.state),
        .restarts = info.restarts,
    };
    copy_name(out->name, sizeof out->name, info.name);
}

/* What is read in one critical section. */
struct batch {
    bool is_first; /* the first batch of this supervisor */
    weft_pid supervisor;
    struct weft__supervisor_info supervisor_info;
    uint32_t count;
    struct weft__visited_child visited[BATCH_CHILDREN];
};

static void visited_child_locked(const struct weft__supervisor *s, uint32_t child,
                                 struct weft__visited_child *out)
{
    out->pid = s->children[child].pid;
    out->number = s->children[child].number;
    out->error = s->children[child].error;
    child_info_locked(s, child, &out->child_info);
}

/* Reads from the last child to the first. Only the last child ever moves, down to the index of a
 * removed child, so an unread child never moves to an index that has been passed: a child may be
 * read twice, but none is missed. */
static void batch_locked(const struct weft__supervisor *s, struct cursor *cursor,
                         struct batch *batch)
{
    uint32_t left = cursor->left < s->policy.count ? cursor->left : s->policy.count;
    batch->is_first = !cursor->started;
    batch->supervisor = s->pid;
    supervisor_info_locked(s, &batch->supervisor_info);
    while (left > 0 && batch->count < BATCH_CHILDREN) {
        visited_child_locked(s, --left, &batch->visited[batch->count++]);
    }
    cursor->started = true;
    cursor->left = left;
}

/* Returns false at the end of the list. Otherwise the batch may be empty: the skipped supervisors
 * are of other hosts. */
static bool next_batch(const weft_host *host, struct cursor *cursor, struct batch *batch)
{
    batch->is_first = false;
    batch->count = 0;
    weft__lock(&lock);
    for (unsigned n = 0; cursor->at && cursor->at->host != host && n < SKIP_SUPERVISORS; n++) {
        cursor_advance_locked(cursor);
    }
    struct weft__supervisor *s = cursor->at;
    if (s && s->host == host) {
        weft__lock(&s->lock);
        batch_locked(s, cursor, batch);
        weft__unlock(&s->lock);
        if (cursor->left == 0) {
            cursor_advance_locked(cursor);
        }
    }
    weft__unlock(&lock);
    return s;
}

void weft__supervisors_visit(const weft_host *host, const struct weft__supervisor_visitor *visitor)
{
    struct cursor cursor;
    struct batch batch;
    cursor_open(&cursor, NULL);
    while (next_batch(host, &cursor, &batch)) {
        if (batch.is_first) {
            visitor->supervisor_info(batch.supervisor, &batch.supervisor_info, visitor->arg);
        }
        for (uint32_t i = 0; i < batch.count; i++) {
            visitor->child_info(&batch.visited[i], visitor->arg);
        }
    }
    cursor_close(&cursor);
}

/* --- one actor, without waiting --------------------------------------------------------------- */

/* Returns the locked supervisor state of this very actor, under the actor's lock. NULL: the actor
 * is not a supervisor, or no longer one, or its lock is busy. */
static struct weft__supervisor *try_lock_supervisor(const weft_actor *actor, weft_fiber id)
{
    uint64_t admission = atomic_load_explicit(&actor->admission, memory_order_acquire);
    if (weft__admission_generation(admission) != (uint32_t)(id >> 32) + 1 ||
        actor->kind != &weft__supervisor_kind) {
        return NULL;
    }
    struct weft__supervisor *s = actor->state;
    if (!weft__lock_try_spin(&s->lock)) {
        return NULL;
    }
    if (!s->listed) {
        weft__unlock(&s->lock);
        return NULL;
    }
    return s;
}

static void read_child_info(const weft_actor *parent, weft_fiber id, weft_pid pid,
                            struct weft__child_info *child_info)
{
    struct weft__supervisor *s = try_lock_supervisor(parent, id);
    uint32_t child = s ? weft__child_find(s, pid) : UINT32_MAX;
    if (child != UINT32_MAX) {
        child_info_locked(s, child, child_info);
    }
    if (s) {
        weft__unlock(&s->lock);
    }
}

void weft__supervisor_info_try(const weft_actor *actor,
                               struct weft__supervisor_info *supervisor_info,
                               struct weft__child_info *child_info)
{
    struct weft__supervisor *s = try_lock_supervisor(actor, actor->self);
    if (s) {
        supervisor_info_locked(s, supervisor_info);
        weft__unlock(&s->lock);
    }
    weft_actor *parent = actor->parent ? weft__actor_find((uint32_t)actor->parent) : NULL;
    if (parent && weft__lock_try_spin(&parent->lock)) {
        read_child_info(parent, actor->parent, weft_actor_pid(actor), child_info);
        weft__unlock(&parent->lock);
    }
}

/* --- text of a supervision tree --------------------------------------------------------------- */

struct text {
    char *at;
    size_t left;
    int length; /* of the whole text, including what was cut off */
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
        weft_pid_format(info->pid, pid, sizeof pid);
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

static void print_supervisor(struct text *text, const struct weft__supervisor *s, int depth)
{
    char pid[64];
    weft_pid_format(s->pid, pid, sizeof pid);
    add(text, "%*s%s %s %s, %" PRIu32 " child%s\n", 2 * depth, "",
        s->opts->name ? s->opts->name : "supervisor", pid, strategy_of(s), s->policy.count,
        s->policy.count == 1 ? "" : "ren");
}

/* Under the supervisor's lock: prints a few children from *next on, up to one that is a supervisor,
 * whose tree comes next. Returns that child, or none. */
static weft_pid print_some(struct text *text, const struct weft__supervisor *s, int depth,
                           uint32_t *next)
{
    for (unsigned n = 0; n < PRINT_CHILDREN && *next < s->policy.count; n++) {
        uint32_t i = (*next)++;
        struct weft_child_info info = info_of(s, i);
        print_child(text, &info, depth);
        if (s->children[i].spec->supervisor && !weft_pid_is_none(info.pid)) {
            return info.pid;
        }
    }
    return (weft_pid){0};
}

/* Returns true if there was such a supervisor. Names are borrowed while the supervisor exists, so
 * the lines are formatted under its lock. */
static bool print(struct text *text, weft_pid pid, int depth)
{
    struct cursor cursor;
    struct weft__supervisor *s = cursor_open(&cursor, &pid);
    uint32_t next = 0;
    bool found = s, more = s;
    while (more) {
        weft_pid below = {0};
        weft__lock(&lock);
        more = cursor.at == s; /* new supervisors go to the front of the list, so a reused address
                                  is never reached */
        if (more) {
            weft__lock(&s->lock);
            if (!cursor.started) {
                print_supervisor(text, s, depth);
                cursor.started = true;
            }
            below = print_some(text, s, depth + 1, &next);
            more = next < s->policy.count;
            weft__unlock(&s->lock);
        }
        weft__unlock(&lock);
        if (!weft_pid_is_none(below)) {
            print(text, below, depth + 2);
        }
    }
    cursor_close(&cursor);
    return found;
}

int weft_supervisor_format(weft_pid supervisor, char *buf, size_t size)
{
    struct text text = {.at = buf, .left = size};
    return print(&text, supervisor, 0) ? text.length : -ESRCH;
}
