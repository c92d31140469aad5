#include "watchdog/fdwatch.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/thread.h"
#include "lock/lock.h"
#include "task/fork.h"
#include "wait/wake_source.h"

#define LINGER_MS 10 /* creating a thread costs more than a short wait for the next watch */
#define EVENTS 16
#define FIRST_SLOTS 16u

/* An epoll event carries a slot's index and generation, so that an event for a removed watch is
 * recognised. */
struct slot {
    struct weft__fdwatch *watch; /* NULL: free */
    uint32_t generation;
    uint32_t next_free; /* index + 1, for a free slot */
};

/* All under the lock. */
static struct {
    struct weft__lock lock;
    bool running; /* the thread exists and uses the two descriptors */
    int epoll;
    int changed_fd; /* eventfd: a change that the thread would not notice */
    struct slot *slots;
    uint32_t slot_count, first_free, used;
} watcher;

#define CHANGED_ID UINT64_MAX

/* --- slots ------------------------------------------------------------------------- */

static int slots_grow_locked(void)
{
    uint32_t count = watcher.slot_count ? 2 * watcher.slot_count : FIRST_SLOTS;
    struct slot *slots = weft__alloc(count * sizeof *slots);
    if (!slots) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < watcher.slot_count; i++) {
        slots[i] = watcher.slots[i];
    }
    for (uint32_t i = count; i-- > watcher.slot_count;) {
        slots[i].next_free = watcher.first_free;
        watcher.first_free = i + 1;
    }
    weft__free(watcher.slots);
    watcher.slots = slots;
    watcher.slot_count = count;
    return 0;
}

static int slot_take_locked(struct weft__fdwatch *watch)
{
    int err = watcher.first_free ? 0 : slots_grow_locked();
    if (err) {
        return err;
    }
    uint32_t index = watcher.first_free - 1;
    struct slot *slot = &watcher.slots[index];
    watcher.first_free = slot->next_free;
    watcher.used++;
    slot->watch = watch;
    weft__wake_source_ref();
    watch->id = (uint64_t)slot->generation << 32 | index;
    return 0;
}

static struct slot *slot_of_locked(uint64_t id)
{
    uint32_t index = (uint32_t)id;
    struct slot *slot = index < watcher.slot_count ? &watcher.slots[index] : NULL;
    return slot && slot->watch && slot->generation == id >> 32 ? slot : NULL;
}

static void slot_free_locked(struct slot *slot)
{
    slot->watch = NULL;
    slot->generation++;
    slot->next_free = watcher.first_free;
    watcher.first_free = (uint32_t)(slot - watcher.slots) + 1;
    watcher.used--;
    weft__wake_source_unref();
}

static void remove_locked(struct slot *slot)
{
    epoll_ctl(watcher.epoll, EPOLL_CTL_DEL, slot->watch->fd, NULL);
    slot_free_locked(slot);
}

/* --- the thread ----------------------------------------------------------------------- */

static void notify_locked(void)
{
    uint64_t one = 1;
    if (write(watcher.changed_fd, &one, sizeof one) < 0) {
        /* It is notified already. */
    }
}

static void serve_locked(uint64_t id)
{
    uint64_t count;
    struct slot *slot;
    if (id == CHANGED_ID) {
        if (read(watcher.changed_fd, &count, sizeof count) < 0) {
            /* Another notification's byte. */
        }
    } else if ((slot = slot_of_locked(id))) {
        struct weft__fdwatch *watch = slot->watch;
        int fd = watch->fd;
        if (!watch->ready(watch)) { /* the watch's memory may be gone */
            /* Closing alone is not enough: a copy in a forked child would keep it in the epoll
             * set. */
            epoll_ctl(watcher.epoll, EPOLL_CTL_DEL, fd, NULL);
            close(fd);
            slot_free_locked(slot);
        }
    }
}

/* True: no watch is left, and the thread ends. */
static bool try_end_locked(void)
{
    if (watcher.used) {
        return false;
    }
    close(watcher.epoll);
    close(watcher.changed_fd);
    weft__free(watcher.slots);
    watcher.slots = NULL;
    watcher.slot_count = watcher.first_free = 0;
    watcher.running = false;
    return true;
}

static void *watch_main(void *arg)
{
    pthread_setname_np(pthread_self(), "weft_watch");
    weft__wake_source_ignore_thread();
    int epoll = (int)(intptr_t)arg;
    bool ended = false;
    int timeout = -1;
    while (!ended) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(epoll, events, EVENTS, timeout);
        WEFT__REQUIRE(
            n >= 0 || errno == EINTR,
            "cannot watch signals and child processes any longer: epoll_wait on "
            "descriptor %d: %s: the program has closed this descriptor, which belongs to Weft: by "
            "close_range, closefrom, or close on a descriptor it does not own",
            epoll, strerrorname_np(errno));
        weft__lock(&watcher.lock);
        for (int i = 0; i < n; i++) {
            serve_locked(events[i].data.u64);
        }
        ended = n == 0 && try_end_locked();
        timeout = watcher.used ? -1 : LINGER_MS;
        weft__unlock(&watcher.lock);
    }
    weft__wake_source_unignore_thread();
    return NULL;
}

static int start_locked(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    int err;
    watcher.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (watcher.epoll < 0) {
        return -errno;
    }
    watcher.changed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watcher.changed_fd < 0) {
        err = -errno;
        goto close_epoll;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = CHANGED_ID};
    if (epoll_ctl(watcher.epoll, EPOLL_CTL_ADD, watcher.changed_fd, &event) != 0) {
        err = -errno;
        goto close_changed;
    }
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    err = weft__thread_create(&thread, &attr, watch_main, (void *)(intptr_t)watcher.epoll);
    pthread_attr_destroy(&attr);
    if (err) {
        goto close_changed;
    }
    watcher.running = true;
    return 0;

close_changed:
    close(watcher.changed_fd);
close_epoll:
    close(watcher.epoll);
    return err;
}

/* --- the interface --------------------------------------------------------------------------- */

int weft__fdwatch_add(struct weft__fdwatch *watch, int fd, bool (*ready)(struct weft__fdwatch *))
{
    weft__fork_install();
    watch->fd = fd;
    watch->ready = ready;
    weft__lock(&watcher.lock);
    int err = watcher.running ? 0 : start_locked();
    if (!err) {
        err = slot_take_locked(watch);
        if (!err) {
            struct epoll_event event = {.events = EPOLLIN, .data.u64 = watch->id};
            if (epoll_ctl(watcher.epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
                err = -errno;
                slot_free_locked(slot_of_locked(watch->id));
            }
        }
        if (watcher.used == 0) {
            notify_locked(); /* the thread was started for nothing */
        }
    }
    weft__unlock(&watcher.lock);
    return err;
}

void weft__fdwatch_remove(struct weft__fdwatch *watch)
{
    weft__lock(&watcher.lock);
    struct slot *slot = slot_of_locked(watch->id);
    WEFT__REQUIRE(slot && slot->watch == watch,
                  "weft__fdwatch_remove: the descriptor is not watched");
    remove_locked(slot);
    if (watcher.used == 0) {
        notify_locked(); /* so that the thread ends soon */
    }
    weft__unlock(&watcher.lock);
}

/* --- forks -------------------------------------------------------------------------------- */

void weft__fdwatch_fork_prepare(void)
{
    weft__lock(&watcher.lock);
}

void weft__fdwatch_fork_parent(void)
{
    weft__unlock(&watcher.lock);
}

/* The child does not have the thread. The memory of the slots is left alone: no allocator calls
 * between fork and exec. */
void weft__fdwatch_fork_child(void)
{
    if (watcher.running) {
        close(watcher.epoll);
        close(watcher.changed_fd);
        watcher.running = false;
    }
    watcher.slots = NULL;
    watcher.slot_count = watcher.first_free = watcher.used = 0;
    weft__unlock(&watcher.lock);
}
