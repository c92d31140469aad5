#include "obs/unwind.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#ifndef WEFT_LIBUNWIND
#define WEFT_LIBUNWIND 0
#endif
#if WEFT_LIBUNWIND
#include <libunwind.h>
#endif

#include "base/alloc.h"
#include "base/clock.h"
#include "fiber/sanitizer.h"
#include "obs/object.h"
#include "obs/sample.h"
#include "sched/fork.h"
#include "sched/worker.h"

/* --- copying a stack ------------------------------------------------------------------------ */

#define RED_ZONE 128 /* bytes below the stack pointer that a leaf function may use */

/* Word by word and volatile, so that no sanitizer's memcpy is called: parts of a stack are
 * poisoned. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void
copy_words(uint64_t *to, uint64_t from, size_t bytes)
{
    const volatile uint64_t *words = (const volatile uint64_t *)from;
    for (size_t i = 0; i < bytes / sizeof *to; i++) {
        to[i] = words[i];
    }
#if WEFT__VALGRIND
    (void)VALGRIND_MAKE_MEM_DEFINED(to, bytes);
#endif
}

void weft__shot_take(struct weft__shot *shot, const char *bottom, const char *top)
{
    uint64_t low = (uint64_t)bottom, high = (uint64_t)top;
    uint64_t sp = shot->regs[WEFT__REG_SP] & ~(uint64_t)7;
    shot->first = shot->bytes = 0;
    if (sp < low || sp >= high) {
        return; /* it runs on another stack, such as that of a signal handler */
    }
    shot->first = sp - low < RED_ZONE ? low : sp - RED_ZONE;
    shot->bytes = high - shot->first < WEFT__SHOT_BYTES ? high - shot->first : WEFT__SHOT_BYTES;
    copy_words(shot->stack, shot->first, shot->bytes);
}

void weft__shot_take_held(struct weft__shot *shot, const struct weft__task *task)
{
    memset(shot->regs, 0, sizeof shot->regs);
    shot->regs[WEFT__REG_PC] = (uint64_t)task->ctx.pc;
    shot->regs[WEFT__REG_SP] = (uint64_t)task->ctx.sp;
    shot->regs[WEFT__REG_FP] = (uint64_t)task->ctx.fp;
    weft__shot_take(shot, weft__stack_bottom(task->stack, task->stack_class), task->stack->top);
}

/* --- libunwind, reading the copy -------------------------------------------------------------- */

#if WEFT_LIBUNWIND

int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t space, unw_word_t ip, unw_dyn_info_t *table,
                                       unw_proc_info_t *out, int need_unwind_info, void *arg);

struct walk {
    struct weft__shot *shot; /* NULL: only tables are read */
    uint64_t first, end;     /* the segment that was read last */
};

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write,
                      void *arg)
{
    struct walk *walk = arg;
    const struct weft__shot *shot = walk->shot;
    (void)space;
    if (write) {
        return -UNW_EINVAL;
    }
    if (shot && address - shot->first < shot->bytes && shot->bytes >= sizeof *value &&
        address - shot->first <= shot->bytes - sizeof *value) {
        memcpy(value, (const char *)shot->stack + (address - shot->first), sizeof *value);
        return 0;
    }
    if ((address < walk->first || address >= walk->end) &&
        !weft__object_segment(address, &walk->first, &walk->end)) {
        walk->first = walk->end = 0;
        return -UNW_EINVAL;
    }
    /* The last word of a segment may be incomplete. */
    size_t there = walk->end - address < sizeof *value ? walk->end - address : sizeof *value;
    *value = 0;
    memcpy(value, (const void *)address, there);
    return 0;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t reg, unw_word_t *value, int write,
                      void *arg)
{
    const struct walk *walk = arg;
    (void)space;
    if (write || reg < 0 || reg >= WEFT__REGS) {
        return -UNW_EBADREG;
    }
    *value = walk->shot->regs[reg];
    return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t reg, unw_fpreg_t *value, int write,
                        void *arg)
{
    (void)space, (void)reg, (void)value, (void)write, (void)arg;
    return -UNW_EBADREG;
}

/* The header before an object's sorted table, as every linker writes it. */
struct eh_frame_hdr {
    uint8_t version, frame_encoding, count_encoding, table_encoding;
    int32_t frame;
    uint32_t count;
};

static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *out,
                          int need_unwind_info, void *arg)
{
    struct weft__object object;
    if (!weft__object_at(ip, &object) || !object.unwind_tables) {
        return -UNW_ENOINFO;
    }
    const struct eh_frame_hdr *head = object.unwind_tables;
    /* Signed offsets of 4 bytes to here, a count of 4 bytes. */
    if (head->version != 1 || head->frame_encoding != 0x1b || head->count_encoding != 0x03 ||
        head->table_encoding != 0x3b) {
        return -UNW_ENOINFO;
    }
    unw_dyn_info_t table = {
        .start_ip = object.first,
        .end_ip = object.end,
        .format = UNW_INFO_FORMAT_REMOTE_TABLE,
        .u.rti = {.segbase = (unw_word_t)head,
                  .table_len = (unw_word_t)head->count * 8 / sizeof(unw_word_t),
                  .table_data = (unw_word_t)(head + 1)},
    };
    return UNW_OBJ(dwarf_search_unwind_table)(space, ip, &table, out, need_unwind_info, arg);
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *info, void *arg)
{
    unw_get_accessors(unw_local_addr_space)->put_unwind_info(space, info, arg);
}

static int no_dyn_info(unw_addr_space_t space, unw_word_t *list, void *arg)
{
    (void)space, (void)list, (void)arg;
    return -UNW_ENOINFO;
}

static int no_resume(unw_addr_space_t space, unw_cursor_t *cursor, void *arg)
{
    (void)space, (void)cursor, (void)arg;
    return -UNW_EINVAL;
}

static int no_name(unw_addr_space_t space, unw_word_t ip, char *buf, size_t size,
                   unw_word_t *offset, void *arg)
{
    (void)space, (void)ip, (void)buf, (void)size, (void)offset, (void)arg;
    return -UNW_ENOINFO;
}

/* Without a fork meanwhile: libunwind has locks of its own, which a child could not release. */
static unw_addr_space_t make_space(void)
{
    static unw_accessors_t accessors = {
        .find_proc_info = find_proc_info,
        .put_unwind_info = put_unwind_info,
        .get_dyn_info_list_addr = no_dyn_info,
        .access_mem = access_mem,
        .access_reg = access_reg,
        .access_fpreg = access_fpreg,
        .resume = no_resume,
        .get_proc_name = no_name,
    };
    unw_addr_space_t space = unw_create_addr_space(&accessors, 0);
    if (space) {
        unw_set_caching_policy(space, UNW_CACHE_NONE); /* objects are loaded and unloaded */
    }
    return space;
}

/* Created once, never freed. */
static unw_addr_space_t the_space(void)
{
    static _Atomic(unw_addr_space_t) made;
    unw_addr_space_t space = atomic_load_explicit(&made, memory_order_acquire); /* pairs: below */
    if (!space) {
        weft__fork_hold();
        space = atomic_load_explicit(&made, memory_order_relaxed);
        if (!space && (space = make_space())) {
            atomic_store_explicit(&made, space, memory_order_release); /* pairs: above */
        }
        weft__fork_let_go();
    }
    return space;
}

bool weft__unwind_works(void)
{
    return true;
}

bool weft__unwind_prepare(void)
{
    return the_space() != NULL;
}

/* The return addresses from a waiting fiber's stack pointer to its entry, and their positions.
 * Besides these, only the two registers that the switch saved matter, so a stack with the same
 * words at the same positions has the same frames, without a search in the unwind tables: some
 * twenty times faster, and most fibers of a large program are alike. */
static bool matches(const struct weft__trail *trail, const struct weft__shot *shot)
{
    uint64_t sp = shot->regs[WEFT__REG_SP];
    if (trail->count == 0 || trail->pcs[0] != (void *)shot->regs[WEFT__REG_PC] ||
        trail->fp != shot->regs[WEFT__REG_FP] - sp) {
        return false;
    }
    for (int i = 1; i < trail->count; i++) {
        uint64_t at = sp + trail->at[i] - shot->first;
        if (at + sizeof(void *) > shot->bytes || at % sizeof(void *) ||
            shot->stack[at / sizeof(void *)] != (uint64_t)trail->pcs[i]) {
            return false;
        }
    }
    return true;
}

static int unwind(struct weft__shot *shot, struct weft__trail *trail, int max)
{
    unw_cursor_t cursor;
    struct walk walk = {.shot = shot};
    struct weft__object object;
    unw_addr_space_t space = the_space();
    uint64_t below = 0;
    int n = 0;
    if (!space || unw_init_remote(&cursor, space, &walk) != 0) {
        return 0;
    }
    while (n < max) {
        unw_word_t pc, sp;
        unw_save_loc_t saved;
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc) != 0 ||
            unw_get_reg(&cursor, UNW_REG_SP, &sp) != 0 || sp < below ||
            !weft__object_at(pc, &object)) {
            break;
        }
        bool in_memory =
            unw_get_save_loc(&cursor, UNW_REG_IP, &saved) == 0 && saved.type == UNW_SLT_MEMORY;
        trail->at[n] = in_memory ? saved.u.addr - shot->regs[WEFT__REG_SP] : UINT64_MAX / 2;
        trail->pcs[n++] = (void *)pc;
        below = sp;
        if (unw_step(&cursor) <= 0) {
            break;
        }
    }
    return n;
}

int weft__shot_unwind(struct weft__shot *shot, struct weft__trails *known, void **pcs, int max)
{
    struct weft__trail own, *trail = &own;
    int found = 0;
    max = max < WEFT__TRAIL_FRAMES ? max : WEFT__TRAIL_FRAMES;
    if (known) {
        while (found < WEFT__TRAILS && !matches(&known->trails[found], shot)) {
            found++;
        }
        unsigned oldest = found < WEFT__TRAILS ? 0 : known->next++ % WEFT__TRAILS;
        trail = &known->trails[found < WEFT__TRAILS ? (unsigned)found : oldest];
    }
    if (!known || found == WEFT__TRAILS) {
        trail->fp = shot->regs[WEFT__REG_FP] - shot->regs[WEFT__REG_SP];
        trail->count = unwind(shot, trail, max);
    }
    memcpy(pcs, trail->pcs, (size_t)trail->count * sizeof *pcs);
    return trail->count;
}

/* libunwind returns the nearest symbol before an address. In a stripped file that symbol may belong
 * to another function: functions whose symbols were removed still have unwind tables, which record
 * where the function begins. */
static bool is_certain(unw_word_t at, unw_word_t symbol)
{
    struct walk walk = {.shot = NULL};
    unw_proc_info_t info;
    unw_addr_space_t space = the_space();
    return space && find_proc_info(space, at, &info, 0, &walk) == 0 && symbol >= info.start_ip;
}

void weft__symbol(const void *pc, bool returns, char *buf, size_t size)
{
    char name[128];
    unw_word_t offset, at = (unw_word_t)pc - returns;
    unw_accessors_t *local = unw_get_accessors(unw_local_addr_space);
    int err = local->get_proc_name(unw_local_addr_space, at, name, sizeof name, &offset, NULL);
    if ((err == 0 || err == -UNW_ENOMEM) && /* the latter: truncated */
        is_certain(at, at - offset)) {
        snprintf(buf, size, "%s+0x%" PRIx64, name, offset + returns);
    } else {
        weft__object_text((uint64_t)pc, buf, size);
    }
}

#else

bool weft__unwind_works(void)
{
    return false;
}

bool weft__unwind_prepare(void)
{
    return true;
}

int weft__shot_unwind(struct weft__shot *shot, struct weft__trails *known, void **pcs, int max)
{
    (void)shot, (void)known, (void)pcs, (void)max;
    return 0;
}

void weft__symbol(const void *pc, bool returns, char *buf, size_t size)
{
    (void)returns;
    weft__object_text((uint64_t)pc, buf, size);
}

#endif

/* --- copy and unwind -------------------------------------------------------------------------- */

#define ANSWER_NS 20000000

int weft__unwind_waiting(struct weft__task *task, void **pcs, int max)
{
    struct weft__shot *shot = weft__alloc(sizeof *shot);
    if (!shot) {
        return -ENOMEM;
    }
    int n = -EAGAIN;
    if (!weft__task_is_body(task) && weft__task_hold(task)) {
        weft__shot_take_held(shot, task);
        if (weft__task_unhold(task)) {
            weft__place(task);
        }
        n = weft__shot_unwind(shot, NULL, pcs, max);
    }
    weft__free(shot);
    return n;
}

int weft__unwind_running(struct weft__worker *worker, void **pcs, int max)
{
    struct weft__shot *shot = weft__alloc(sizeof *shot);
    if (!shot) {
        return -ENOMEM;
    }
    int tid = atomic_load_explicit(&worker->tid, memory_order_relaxed);
    int n = weft__sample_begin(0);
    if (n == 0) {
        n = weft__sample(tid, WEFT_NO_FIBER, weft__clock_ns() + ANSWER_NS, shot);
        weft__sample_end();
    }
    if (n == 0) {
        n = weft__shot_unwind(shot, NULL, pcs, max);
    }
    weft__free(shot);
    return n;
}
