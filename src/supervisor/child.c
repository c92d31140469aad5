/* The children of a supervisor: their table with an index by PID, and their start order. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "supervisor/supervisor.h"

#define NONE UINT32_MAX
#define DEFAULT_STOP_NS (5 * (int64_t)1000000000)

static int64_t stop_ns(const struct weft_child_spec *spec)
{
    if (spec->stop_ns) {
        return spec->stop_ns;
    }
    return spec->supervisor ? WEFT_FOREVER : DEFAULT_STOP_NS;
}

/* --- the table -------------------------------------------------------------------------------- */

static uint32_t *bucket_of(const struct weft__supervisor *s, weft_pid pid)
{
    return &s->index[(uint32_t)pid.id & (s->capacity - 1)];
}

static void index_add(struct weft__supervisor *s, uint32_t child)
{
    uint32_t *bucket = bucket_of(s, s->children[child].pid);
    s->children[child].next = *bucket;
    *bucket = child;
}

static void index_remove(struct weft__supervisor *s, uint32_t child)
{
    uint32_t *at = bucket_of(s, s->children[child].pid);
    while (*at != child) {
        at = &s->children[*at].next;
    }
    *at = s->children[child].next;
}

uint32_t weft__child_find(const struct weft__supervisor *s, weft_pid pid)
{
    uint32_t child = s->capacity && !weft_pid_is_none(pid) ? *bucket_of(s, pid) : NONE;
    while (child != NONE && !weft_pid_equal(s->children[child].pid, pid)) {
        child = s->children[child].next;
    }
    return child;
}

static int grow(struct weft__supervisor *s)
{
    uint32_t capacity = s->capacity ? 2 * s->capacity : 8, count = s->policy.count;
    struct weft__child *children = weft__alloc_dirty(capacity * sizeof *children);
    uint32_t *index = weft__alloc_dirty(capacity * sizeof *index);
    if (!children || !index) {
        weft__free(children);
        weft__free(index);
        return -ENOMEM;
    }
    if (count) {
        memcpy(children, s->children, count * sizeof *children);
    }
    weft__free(s->children);
    weft__free(s->index);
    s->children = children;
    s->index = index;
    s->capacity = capacity;
    memset(index, 0xff, capacity * sizeof *index);
    for (uint32_t i = 0; i < count; i++) {
        if (!weft_pid_is_none(children[i].pid)) {
            index_add(s, i);
        }
    }
    return 0;
}

int64_t weft__child_add(struct weft__supervisor *s, const struct weft_child_spec *spec,
                        weft_buf *input, const uint32_t *required)
{
    int64_t number = s->policy.count == s->capacity ? grow(s) : 0;
    if (number == 0) {
        number = weft__policy_add(&s->policy, spec->restart, stop_ns(spec), required);
    }
    if (number < 0) {
        weft_buf_free(input);
        return number;
    }
    s->children[number] =
        (struct weft__child){.spec = spec, .number = s->numbered++, .input = input, .next = NONE};
    return number;
}

void weft__child_drop(struct weft__supervisor *s, uint32_t child)
{
    uint32_t last = s->policy.count - 1;
    bool is_running = !weft_pid_is_none(s->children[last].pid);
    weft_buf_free(s->children[child].input);
    if (is_running) {
        index_remove(s, last);
    }
    s->children[child] = s->children[last];
    weft__policy_drop(&s->policy, child);
    if (is_running) {
        index_add(s, child);
    }
}

void weft__child_set_pid(struct weft__supervisor *s, uint32_t child, weft_pid pid)
{
    s->children[child].pid = pid;
    s->children[child].starts++;
    index_add(s, child);
}

void weft__child_clear_pid(struct weft__supervisor *s, uint32_t child)
{
    index_remove(s, child);
    s->children[child].pid = (weft_pid){0};
}

int weft__child_start(struct weft__supervisor *s, uint32_t child)
{
    const struct weft__child *c = &s->children[child];
    const struct weft_child_spec *spec = c->spec;
    weft_buf *options = spec->supervisor ? weft__supervisor_input(spec->supervisor) : NULL;
    weft_pid pid;
    if (spec->supervisor && !options) {
        return -ENOMEM;
    }
    int err =
        weft_actor_spawn_with(s->host, &pid, spec->supervisor ? &weft__supervisor_kind : spec->kind,
                              &(struct weft_actor_spawn_opts){
                                  .method = spec->method,
                                  .input = options    ? options
                                           : c->input ? c->input
                                                      : spec->input,
                                  .self = s->self,
                                  .link = true,
                                  .name = spec->named ? spec->name : NULL,
                              });
    weft_buf_free(options);
    if (err) {
        return err < 0 ? err : -EEXIST; /* another actor has the name */
    }
    weft__lock(&s->lock);
    weft__child_set_pid(s, child, pid);
    weft__unlock(&s->lock);
    return 0;
}

/* --- start order ------------------------------------------------------------------------------ */

static int64_t by_name(const struct weft_supervisor_opts *opts, const char *name)
{
    for (size_t i = 0; i < opts->count; i++) {
        if (strcmp(opts->children[i].name, name) == 0) {
            return (int64_t)i;
        }
    }
    return -ENOENT;
}

static int check_child(const struct weft_supervisor_opts *opts, size_t i)
{
    const struct weft_child_spec *spec = &opts->children[i];
    bool dynamic = opts->strategy == WEFT_DYNAMIC;
    if (!spec->kind == !spec->supervisor) {
        return weft__refuse(-EINVAL, "children: each needs either a kind or a supervisor");
    }
    if (!spec->name && (!dynamic || spec->named)) {
        return weft__refuse(-EINVAL, "children: each needs a name");
    }
    if ((unsigned)spec->restart > WEFT_CHILD_TEMPORARY) {
        return weft__refuse(-EINVAL, "children: restart must be one of enum weft_child_restart");
    }
    if (dynamic && (spec->requires || spec->named)) {
        return weft__refuse(-EINVAL, "children: a dynamic child is not named and requires nothing");
    }
    return dynamic || by_name(opts, spec->name) == (int64_t)i ? 0 : -EEXIST;
}

static int check(const struct weft_supervisor_opts *opts)
{
    int err = 0;
    if (opts->strategy == WEFT_DYNAMIC && opts->count != 1) {
        return weft__refuse(-EINVAL, "count: a dynamic supervisor has one kind of child");
    }
    for (size_t i = 0; i < opts->count; i++) {
        if (!opts->children[i].name && opts->strategy != WEFT_DYNAMIC) {
            return weft__refuse(-EINVAL, "children: each needs a name");
        }
    }
    for (size_t i = 0; i < opts->count && !err; i++) {
        err = check_child(opts, i);
    }
    return err;
}

/* Returns the number of required names plus one terminator for each child, or -ENOENT. */
static int64_t count_required(const struct weft_supervisor_opts *opts)
{
    int64_t count = 0;
    for (size_t i = 0; i < opts->count; i++) {
        const char *const *name = opts->children[i].requires;
        for (; name && *name; name++, count++) {
            if (by_name(opts, *name) < 0) {
                return -ENOENT;
            }
        }
        count++;
    }
    return count;
}

/* Are all children that this one requires in the table already? */
static bool has_all_required(const struct weft_supervisor_opts *opts, size_t i,
                             const uint32_t *numbers)
{
    const char *const *name = opts->children[i].requires;
    while (name && *name && numbers[by_name(opts, *name)] != NONE) {
        name++;
    }
    return !name || !*name;
}

/* Add the first child that can be started next, with the indexes of the children it requires at
 * *list. -ELOOP: there is none. */
static int add_next(struct weft__supervisor *s, uint32_t *numbers, uint32_t **list)
{
    const struct weft_supervisor_opts *opts = s->opts;
    size_t i = 0;
    while (i < opts->count && (numbers[i] != NONE || !has_all_required(opts, i, numbers))) {
        i++;
    }
    if (i == opts->count) {
        return -ELOOP;
    }
    const struct weft_child_spec *spec = &opts->children[i];
    const uint32_t *own_list = *list;
    for (const char *const *name = spec->requires; name && *name; name++) {
        *(*list)++ = numbers[by_name(opts, *name)];
    }
    *(*list)++ = NONE;
    int64_t number = weft__child_add(s, spec, NULL, spec->requires ? own_list : NULL);
    if (number < 0) {
        return (int)number;
    }
    numbers[i] = (uint32_t)number;
    return 0;
}

static int add_all(struct weft__supervisor *s)
{
    size_t count = s->opts->count;
    int64_t required = count_required(s->opts);
    if (required < 0) {
        return (int)required;
    }
    uint32_t *numbers = weft__alloc_dirty((count + 1) * sizeof *numbers);
    s->required = weft__alloc_dirty((size_t)(required + 1) * sizeof *s->required);
    int err = numbers && s->required ? 0 : -ENOMEM;
    uint32_t *list = s->required;
    if (!err) {
        memset(numbers, 0xff, count * sizeof *numbers);
    }
    for (size_t i = 0; i < count && !err; i++) {
        err = add_next(s, numbers, &list);
    }
    weft__free(numbers);
    return err;
}

int weft__children_init(struct weft__supervisor *s)
{
    int err = check(s->opts);
    return err || s->opts->strategy == WEFT_DYNAMIC ? err : add_all(s);
}

void weft__children_free(struct weft__supervisor *s)
{
    for (uint32_t i = 0; i < s->policy.count; i++) {
        weft_buf_free(s->children[i].input);
        weft__removal_waiters_notify(s->children[i].removal_waiters, -ESRCH);
    }
    weft__free(s->children);
    weft__free(s->index);
    weft__free(s->required);
    weft__policy_deinit(&s->policy);
}
