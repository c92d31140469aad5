/* Clients of sync/rwlock.c: readers and writers against each other, a deadline and a cancel;
 * readers with a reader slot, of thread 0, against all of these. */
#define FIBERS 3
#include <errno.h>

#include "model/holders.h"
#include "sync/rwlock.h"

static union {
    struct weft__rwlock lock;
    weft_rwlock storage;
} place;
#define THE_LOCK (&place.storage)
static int shared; /* plain: the lock must order it */
static _Atomic(int) through;

static void setup(void)
{
    fibers_setup();
    memset(&place, 0, sizeof place);
    memset(weft__reader_slots, 0, 3 * sizeof weft__reader_slots[0]);
    for (int i = 0; i < FIBERS; i++) {
        twin_reader_slot(i, NULL);
    }
    weft_rwlock_init(THE_LOCK, NULL);
    shared = 0;
    atomic_init(&through, 0);
    x_name(&place, sizeof place, "rwlock");
    x_name(weft__reader_slots, 3 * sizeof weft__reader_slots[0], "shows");
}

static void setup_read(void)
{
    setup();
    atomic_init(&place.lock.word, WEFT__READER_SLOT_UNIT);
}

/* Thread 0 uses its reader slot. */
static void setup_showing(void)
{
    struct weft__reader_slot *reader_slot = &weft__reader_slots[1];
    setup();
    reader_slot->tag = WEFT__READER_SLOT_TAG;
    reader_slot->worker = &workers[0];
    atomic_init(&reader_slot->taken, 1);
    workers[0].reader_slot = reader_slot;
    twin_reader_slot(0, reader_slot);
    atomic_init(&place.lock.word, WEFT__READER_SLOT_TAG);
}

/* ... and one fiber reads. */
static void setup_shown(void)
{
    setup_showing();
    atomic_init(&weft__reader_slots[1].word, &place.lock.word);
}

static void setup_written(void)
{
    setup();
    atomic_init(&place.lock.word, 1);
    atomic_init(&place.lock.writer, HOLDER(0));
}

static void rest(void)
{
    fibers_rest();
    X_ASSERT(!place.lock.source.waiters.first && !place.lock.readers.first);
    X_ASSERT((place.lock.word & ~(uint64_t)WEFT__READER_SLOT_TAG) == 0 && place.lock.writer == 0);
    X_ASSERT(!weft__reader_slots[1].word);
}

static void write_section(void)
{
    shared++;
    weft_rwlock_write_unlock(THE_LOCK);
}

static void write_surely(void)
{
    X_ASSERT(weft_rwlock_write(THE_LOCK, WEFT_FOREVER) == 0);
    write_section();
}

static void read_section(void)
{
    X_ASSERT(shared >= 0);
    weft_rwlock_read_unlock(THE_LOCK);
}

static void read_surely(void)
{
    X_ASSERT(weft_rwlock_read(THE_LOCK, WEFT_FOREVER) == 0);
    read_section();
}

static void read_against_write(int i)
{
    if (i == 0) {
        read_surely();
    } else {
        write_surely();
    }
}

static void two_write(int i)
{
    (void)i;
    write_surely();
}

/* As a stackless task would: never told to retry. */
static enum weft__reason wait_admitted(uint64_t writer)
{
    static const struct weft__wait_kind kind = {.name = "admitted"};
    struct weft__waiter waiter;
    struct weft__node node;
    enum weft__reason reason = WEFT__REASON_DONE;
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    weft__node_init(&node, &waiter, 0);
    if (weft__rwlock_arm(&place.lock, &node, writer)) {
        reason = weft__waiter_park(&waiter, WEFT_FOREVER, &kind, 0);
        weft__rwlock_finish(&place.lock, &node, writer);
    } else {
        (void)!weft__waiter_disarm(&waiter); /* a cancel has no effect any more */
    }
    return reason;
}

static void read_admitted(void)
{
    X_ASSERT(weft__reason_is_done(wait_admitted(0)));
    read_section();
}

static void admitted_against_write(int i)
{
    if (i == 0) {
        write_section();
    } else if (i == 1) {
        read_admitted();
    } else {
        write_surely();
    }
}

/* A fiber that is told to retry, and a task that cannot retry. */
static void admitted_among_readers(int i)
{
    if (i == 0) {
        write_section();
    } else if (i == 1) {
        read_admitted();
    } else {
        read_surely();
    }
}

/* Whatever happens to the cancelled waiter, the other gets the lock. */
static void admitted_gives_up(int i, uint64_t writer)
{
    if (i == 0) {
        X_ASSERT(weft_cancel(HANDLE(1)) == 0);
        write_section();
    } else if (i == 2) {
        write_surely();
    } else if (weft__reason_is_done(wait_admitted(writer))) {
        if (writer) {
            write_section();
        } else {
            read_section();
        }
    }
}

static void admitted_reader_gives_up(int i)
{
    admitted_gives_up(i, 0);
}

static void admitted_writer_gives_up(int i)
{
    admitted_gives_up(i, HOLDER(1));
}

static void unlock_against_both(int i)
{
    if (i == 0) {
        read_section();
    } else if (i == 1) {
        write_surely();
    } else {
        read_surely();
    }
}

static void unlock_against_two_readers(int i)
{
    if (i == 0) {
        write_section();
    } else {
        read_surely();
    }
}

static void writer_gives_up(int i)
{
    if (i == 0) {
        X_ASSERT(weft_cancel(HANDLE(1)) == 0);
        read_section();
    } else if (i == 1) {
        int err = weft_rwlock_write(THE_LOCK, WEFT_FOREVER);
        X_ASSERT(err == 0 || err == -ECANCELED);
        if (err == 0) {
            write_section();
        }
    } else {
        read_surely();
    }
}

/* The reader after it waits for no other waiter. */
static void only_writer_gives_up(int i)
{
    if (i == 0) {
        X_ASSERT(weft_cancel(HANDLE(1)) == 0);
        while (!atomic_load_explicit(&through, memory_order_relaxed)) {
            x_spin();
        }
        read_section();
    } else if (i == 1) {
        int err = weft_rwlock_write(THE_LOCK, WEFT_FOREVER);
        X_ASSERT(err == 0 || err == -ECANCELED);
        if (err == 0) { /* the last of all */
            write_section();
        }
    } else {
        read_surely();
        atomic_store_explicit(&through, 1, memory_order_relaxed);
    }
}

static void reader_gives_up(int i)
{
    if (i == 0) {
        write_section();
    } else if (i == 1) {
        int err = weft_rwlock_read(THE_LOCK, LATER);
        X_ASSERT(err == 0 || err == -ETIMEDOUT);
        if (err == 0) {
            read_section();
        }
    } else {
        fibers_expire(1);
    }
}

/* The fiber is switched out while it reads. */
static void settle_against_write(int i)
{
    if (i == 0) {
        weft__reader_slot_settle(&weft__reader_slots[1]);
        read_section();
    } else {
        write_surely();
    }
}

static void read_twice_against_write(int i)
{
    if (i == 0) {
        read_surely();
    }
    read_against_write(i);
}

static void read_and_try_to_write(int i)
{
    (void)i;
    X_ASSERT(weft_rwlock_read(THE_LOCK, WEFT_FOREVER) == 0);
    X_ASSERT(weft_rwlock_write(THE_LOCK, 0) == -ETIMEDOUT);
    read_section();
}

static void write_against_read(int i)
{
    if (i == 0) {
        write_surely();
    } else {
        read_surely();
    }
}

static void publish_slot_against_write(int i)
{
    if (i == 0) {
        weft__rwlock_enter_slot(&place.lock);
        read_surely();
    } else {
        write_surely();
    }
}

/* A writer waits; meanwhile thread 0 begins to use its reader slot. */
static void publish_slot_while_read(int i)
{
    if (i == 0) {
        weft__rwlock_enter_slot(&place.lock);
        read_surely();
    } else if (i == 1) {
        write_surely();
    } else {
        read_section();
    }
}

static const struct x_client clients[] = {
    X_CLIENT("slot_read_twice", 2, setup_showing, read_twice_against_write, rest, .preemptions = 2,
             .stale = 2),
    X_CLIENT("slot_try_to_write", 1, setup_showing, read_and_try_to_write, rest, 0),
    X_CLIENT("write_against_read", 2, setup_showing, write_against_read, rest, .preemptions = 3),
    X_CLIENT("publish_slot_against_write", 2, setup, publish_slot_against_write, rest,
             .preemptions = 2, .stale = 2),
    X_CLIENT("slot_against_both", 3, setup_shown, unlock_against_both, rest, .preemptions = 1,
             .stale = 1),
    X_CLIENT("slot_writer_gives_up", 3, setup_shown, writer_gives_up, rest, .preemptions = 1,
             .stale = 1),
    X_CLIENT("read_against_write", 2, setup, read_against_write, rest, .preemptions = 4),
    X_CLIENT("two_write", 2, setup, two_write, rest, .preemptions = 2),
    X_CLIENT("reader_gives_up", 3, setup_written, reader_gives_up, rest, .preemptions = 2,
             .stale = 1),
    X_CLIENT("unlock_against_two_readers", 3, setup_written, unlock_against_two_readers, rest,
             .preemptions = 1, .stale = 1),
    X_CLIENT("unlock_against_both", 3, setup_read, unlock_against_both, rest, .preemptions = 1,
             .stale = 1),
    X_CLIENT("admitted_against_write", 3, setup_written, admitted_against_write, rest,
             .preemptions = 1, .stale = 1),
    X_CLIENT("admitted_among_readers", 3, setup_written, admitted_among_readers, rest,
             .preemptions = 1, .stale = 1),
    X_CLIENT("admitted_reader_gives_up", 3, setup_written, admitted_reader_gives_up, rest,
             .preemptions = 1, .stale = 1),
    X_CLIENT("admitted_writer_gives_up", 3, setup_written, admitted_writer_gives_up, rest,
             .preemptions = 1, .stale = 1),
    X_CLIENT("only_writer_gives_up", 3, setup_read, only_writer_gives_up, rest, .preemptions = 1,
             .stale = 1),
    X_CLIENT("writer_gives_up", 3, setup_read, writer_gives_up, rest, .preemptions = 1, .stale = 1),
    X_CLIENT("slot_read_against_write", 2, setup_showing, read_against_write, rest,
             .preemptions = 3, .stale = 2),
    X_CLIENT("slot_against_write", 2, setup_shown, settle_against_write, rest, .preemptions = 3),
    X_CLIENT("publish_slot_while_read", 3, setup_read, publish_slot_while_read, rest,
             .preemptions = 2, .stale = 1),
};

X_MAIN(clients)
