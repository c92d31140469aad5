/* The memory model: locations, their stores in modification order, and views. See explore.h. */
#include <string.h>

#include "model/explore_internal.h"

#define VIEWS 2048 /* most views carried by stores in one execution */

static struct location locations[LOCATIONS];
static struct view carried[VIEWS];
static int location_count, carried_count, sc_stores;
static uint64_t last_sc; /* id of the last seq_cst store */

enum { KIND_LOAD = 16, KIND_STORE, KIND_MODIFY, KIND_FAILED, KIND_SPIN, KIND_AHEAD, KIND_BARRIER };

void memory_reset(void)
{
    location_count = 0;
    carried_count = 0;
    sc_stores = 0;
    last_sc = 0;
}

void view_join(struct view *into, const struct view *from)
{
    for (int i = 0; i < CLOCKS; i++) {
        into->clock[i] = into->clock[i] > from->clock[i] ? into->clock[i] : from->clock[i];
    }
    for (int i = 0; i < location_count; i++) {
        into->seen[i] = into->seen[i] > from->seen[i] ? into->seen[i] : from->seen[i];
    }
}

static struct view *view_copy(const struct view *from)
{
    if (carried_count == VIEWS) {
        x_fail("explorer: more than %d release stores", VIEWS);
    }
    struct view *view = &carried[carried_count++];
    memcpy(view->clock, from->clock, sizeof view->clock);
    memcpy(view->seen, from->seen, (size_t)location_count * sizeof view->seen[0]);
    /* Locations that appear later have not been seen. */
    memset(view->seen + location_count, 0,
           (size_t)(LOCATIONS - location_count) * sizeof view->seen[0]);
    return view;
}

static bool acquires(memory_order order)
{
    return order != memory_order_relaxed && order != memory_order_release;
}

static bool releases(memory_order order)
{
    return order != memory_order_relaxed && order != memory_order_acquire;
}

static uint64_t memory_get(const void *at, int bytes)
{
    uint64_t value = 0;
    memcpy(&value, at, (size_t)bytes);
    return value;
}

struct location *location_of(const void *at, int bytes, bool write)
{
    struct location *location = race_atomic((uintptr_t)at, bytes, write);
    if (!location) {
        if (location_count == LOCATIONS) {
            x_fail("explorer: more than %d atomic locations", LOCATIONS);
        }
        location = &locations[location_count];
        memset(location, 0, offsetof(struct location, stores));
        location->at = (uintptr_t)at;
        location->bytes = bytes;
        location->index = location_count++;
        location->count = 1;
        location->stores[0] = (struct message){.value = memory_get(at, bytes)};
        race_new_location(location);
    } else if (location->at != (uintptr_t)at || location->bytes != bytes) {
        x_fail("explorer: atomics of different sizes overlap at %s", memory_name((uintptr_t)at));
    } else if (location->stores[location->count - 1].value != memory_get(at, bytes)) {
        x_fail("plain write to the atomic %s", memory_name((uintptr_t)at));
    }
    ahead_access(location);
    int16_t *last = write ? location->writes : location->reads;
    last[self->index] = (int16_t)self->events;
    return location;
}

/* ---- busy loops ---- */

static void turn_add(struct location *location, int store)
{
    struct thread *me = self;
    for (int i = 0; i < me->turn_reads && i < SPIN_READS; i++) {
        if (me->turn[i].location == location) {
            me->turn[i].store = store;
            return;
        }
    }
    if (me->turn_reads < SPIN_READS) {
        me->turn[me->turn_reads].location = location;
        me->turn[me->turn_reads].store = store;
    }
    if (me->turn_reads <= SPIN_READS) {
        me->turn_reads++;
    }
}

bool turn_is_stale(const struct thread *thread)
{
    if (thread->turn_reads > SPIN_READS) {
        return true;
    }
    for (int i = 0; i < thread->turn_reads; i++) {
        if (thread->turn[i].store < thread->turn[i].location->count - 1) {
            return true;
        }
    }
    return false;
}

/* A store eventually reaches a busy loop: the loop sees the newest store of all that it reads. */
void turn_refresh(struct thread *thread)
{
    uint64_t seen = 0;
    for (int i = 0; i < thread->turn_reads && i < SPIN_READS; i++) {
        const struct location *location = thread->turn[i].location;
        thread->view.seen[location->index] = (int16_t)(location->count - 1);
        seen += location->stores[location->count - 1].id;
    }
    thread->turn_reads = 0;
    event_end(event_begin(), KIND_SPIN, 0, seen, 0);
}

/* A loop that coasts rereads the same values; false: this read does not belong to that loop. */
static const struct message *coast(const void *at)
{
    if (!self->coasting) {
        return NULL;
    }
    for (int i = 0; i < self->turn_reads && i < SPIN_READS; i++) {
        if (self->turn[i].location->at == (uintptr_t)at) {
            return &self->turn[i].location->stores[self->turn[i].store];
        }
    }
    return NULL;
}

/* ---- reading and storing ---- */

/* The oldest store that this thread may read.
 *
 * A seq_cst load also has a place in the total order of seq_cst operations: after every seq_cst
 * store that happens before it, and no further. A later store that merely ran earlier does not bind
 * the load, which is how a relaxed load before it can be reordered with it. */
static int oldest_visible(const struct location *location, memory_order order)
{
    if (!may_read_stale()) {
        return location->count - 1;
    }
    int oldest = self->view.seen[location->index];
    for (int store = location->count - 1; order == memory_order_seq_cst && store > oldest;
         store--) {
        if (location->stores[store].sc && location->stores[store].sc <= self->view.clock[SEQ_CST]) {
            return store;
        }
    }
    return oldest;
}

static const struct message *read_store(struct location *location, int store, memory_order order)
{
    const struct message *message = &location->stores[store];
    self->view.seen[location->index] = (int16_t)store;
    stale_reads += store < location->count - 1;
    if (acquires(order) && message->view) {
        view_join(&self->view, message->view);
    }
    turn_add(location, store);
    return message;
}

const struct message *read_newest(struct thread *thread, struct location *location)
{
    (void)thread;
    return read_store(location, location->count - 1, memory_order_relaxed);
}

/* Part of the state: what a seq_cst store comes after. */
static uint64_t sc_place(uint64_t id, memory_order order)
{
    if (order != memory_order_seq_cst) {
        return 0;
    }
    uint64_t before = last_sc;
    last_sc = id;
    return before * 3;
}

/* Appends a store. `sequence`: the view of the store that a read-modify-write read, or NULL. */
static void append(struct location *location, void *at, uint64_t value, uint64_t id,
                   memory_order order, const struct view *sequence)
{
    if (location->count == STORES) {
        x_fail("livelock: more than %d stores to %s", STORES, memory_name(location->at));
    }
    int store = location->count++;
    struct message *message = &location->stores[store];
    message->value = value;
    message->id = id;
    message->sc = 0;
    if (order == memory_order_seq_cst) {
        message->sc = self->view.clock[SEQ_CST] = (int16_t)++sc_stores;
    }
    self->view.seen[location->index] = (int16_t)store;
    if (releases(order)) {
        struct view *view = view_copy(&self->view);
        if (sequence) {
            view_join(view, sequence);
        }
        message->view = view;
    } else {
        message->view = sequence;
    }
    memcpy(at, &value, (size_t)location->bytes);
    ahead_stored(location, value);
}

static const char *stale_note(const struct location *location, const struct message *message)
{
    const struct message *newest = &location->stores[location->count - 1];
    return message == newest ? "" : newest->value == message->value ? " (old)" : " (STALE)";
}

/* ---- the operations ---- */

void x_init(void *at, int bytes, uint64_t value, const struct x_site *site)
{
    x_plain(at, (size_t)bytes, true);
    memcpy(at, &value, (size_t)bytes);
    trace(site, at, "init", "%s", value_text(value));
}

uint64_t x_load(const void *at, int bytes, memory_order order, const struct x_site *site)
{
    const struct message *again = coast(at);
    if (again) {
        return again->value;
    }
    scheduling_point();
    uint64_t id = event_begin();
    struct location *location = location_of(at, bytes, false);
    int newest = location->count - 1;
    int visible = newest - oldest_visible(location, order) + 1;
    int ahead = order == memory_order_relaxed ? ahead_candidates((uintptr_t)at) : 0;
    int back = visible + ahead > 1 ? search_choose(visible + ahead) : 0;
    if (back >= visible) {
        uint64_t value = ahead_read(location, back - visible);
        event_end(id, KIND_AHEAD, (uintptr_t)at, value, 0);
        trace(site, at, "load", "%s %s (AHEAD)", value_text(value), order_name(order));
        return value;
    }
    const struct message *message = read_store(location, newest - back, order);
    event_end(id, KIND_LOAD, (uintptr_t)at, message->id, 0);
    trace(site, at, "load", "%s %s%s", value_text(message->value), order_name(order),
          stale_note(location, message));
    return message->value;
}

void x_store(void *at, int bytes, uint64_t value, memory_order order, const struct x_site *site)
{
    scheduling_point();
    uint64_t id = event_begin();
    struct location *location = location_of(at, bytes, true);
    uint64_t before = location->stores[location->count - 1].id;
    before += sc_place(id, order);
    append(location, at, value, id, order, NULL);
    event_end(id, KIND_STORE, (uintptr_t)at, 0, before);
    trace(site, at, "store", "%s %s", value_text(value), order_name(order));
}

static uint64_t modified(enum x_rmw what, uint64_t old, uint64_t operand)
{
    switch (what) {
    case X_ADD:
        return old + operand;
    case X_SUB:
        return old - operand;
    case X_OR:
        return old | operand;
    case X_AND:
        return old & operand;
    default:
        return operand;
    }
}

/* Reads the newest store and appends another. */
static uint64_t read_modify_write(struct location *location, void *at, uint64_t id, enum x_rmw what,
                                  uint64_t operand, memory_order order)
{
    int newest = location->count - 1;
    const struct message *message = read_store(location, newest, order);
    uint64_t old = message->value;
    uint64_t value = modified(what, old, operand);
    if (location->bytes < 8) {
        value &= ((uint64_t)1 << location->bytes * 8) - 1;
    }
    uint64_t read_from = message->id;
    append(location, at, value, id, order, message->view);
    turn_add(location, newest + 1);
    event_end(id, KIND_MODIFY, (uintptr_t)at, read_from, sc_place(id, order));
    return old;
}

uint64_t x_modify(void *at, int bytes, enum x_rmw what, uint64_t operand, memory_order order,
                  const struct x_site *site)
{
    static const char *const names[] = {"exchange", "fetch add", "fetch sub", "fetch or",
                                        "fetch and"};
    scheduling_point();
    uint64_t id = event_begin();
    struct location *location = location_of(at, bytes, true);
    uint64_t old = read_modify_write(location, at, id, what, operand, order);
    trace(site, at, names[what], "%s -> %s %s", value_text(old),
          value_text(location->stores[location->count - 1].value), order_name(order));
    return old;
}

bool x_compare_exchange(void *at, int bytes, uint64_t *expected, uint64_t desired, bool weak,
                        memory_order if_won, memory_order if_lost, const struct x_site *site)
{
    const struct message *again = coast(at);
    if (again && again->value != *expected) {
        *expected = again->value;
        return false;
    }
    scheduling_point();
    uint64_t id = event_begin();
    struct location *location = location_of(at, bytes, true);
    int newest = location->count - 1, oldest = oldest_visible(location, if_lost);
    bool wins = location->stores[newest].value == *expected;
    if (wins && weak && spend_spurious()) {
        const struct message *message = read_store(location, newest, if_lost);
        event_end(id, KIND_FAILED, (uintptr_t)at, message->id, 1);
        trace(site, at, "cas", "fails for no reason, %s", order_name(if_lost));
        return false;
    }
    /* The newest store if it may win, then every visible store that makes it fail. */
    int choices[STORES], n = 0;
    for (int store = newest; store >= oldest; store--) {
        if (location->stores[store].value != *expected || (store == newest && wins)) {
            choices[n++] = store;
        }
    }
    int store = choices[n > 1 ? search_choose(n) : 0];
    if (store == newest && wins) {
        read_modify_write(location, at, id, X_EXCHANGE, desired, if_won);
        trace(site, at, "cas", "%s -> %s %s", value_text(*expected), value_text(desired),
              order_name(if_won));
        return true;
    }
    const struct message *message = read_store(location, store, if_lost);
    event_end(id, KIND_FAILED, (uintptr_t)at, message->id, 0);
    trace(site, at, "cas", "%s expected, %s found: fails, %s%s", value_text(*expected),
          value_text(message->value), order_name(if_lost), stale_note(location, message));
    *expected = message->value;
    return false;
}

void x_membarrier(void)
{
    scheduling_point();
    uint64_t id = event_begin();
    for (int i = 0; i <= X_THREADS; i++) {
        for (int k = 0; k < location_count; k++) {
            threads[i].view.seen[k] = (int16_t)(locations[k].count - 1);
        }
    }
    /* Everything that ran before happens before it. */
    event_end(id, KIND_BARRIER, 0, graph_hash, 0);
    trace(NULL, NULL, "membarrier", "%s", "all threads");
}
