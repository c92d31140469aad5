/* The dump of all fibers: take a snapshot of each slot's fiber (obs/fiber_snapshot.h), group fibers
 * with the same stack (obs/fold.h), and when no fiber is held any more, look up the symbols and
 * write the dump. */
#include "obs/dump.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "backtrace/sample.h"
#include "base/alloc.h"
#include "task/slab.h"

#define SHOWN 8
#define FRAMES 32
#define SAMPLE_NS 20000000
#define SAMPLES 10 /* timeouts allowed in one dump */

int weft__dump_check(const struct weft_dump_opts *opts)
{
    return opts && (opts->max_frames > WEFT__SNAPSHOT_FRAMES || opts->sample_ns < 0 ||
                    (opts->format != WEFT_DUMP_TEXT && opts->format != WEFT_DUMP_JSON) ||
                    opts->sample_signal > SIGRTMAX)
               ? -EINVAL
               : 0;
}

struct weft__dump *weft__dump_create(const struct weft_dump_opts *opts)
{
    struct weft__dump *dump = weft__map(sizeof *dump);
    if (dump) {
        struct weft_dump_opts *o = &dump->opts;
        *o = opts ? *opts : (struct weft_dump_opts){0};
        o->max_fibers = o->max_fibers ? o->max_fibers : SIZE_MAX;
        o->max_shown = o->max_shown ? o->max_shown : SHOWN;
        o->max_frames = o->max_frames ? o->max_frames : FRAMES;
        o->sample_ns = o->sample_ns ? o->sample_ns : SAMPLE_NS;
    }
    return dump;
}

void weft__dump_destroy(struct weft__dump *dump)
{
    weft__unmap(dump, sizeof *dump);
}

static void snapshot_all(struct weft__dump *dump)
{
    uint32_t slots = weft__slab_slots();
    for (uint32_t slot = 1; slot <= slots; slot++) {
        if (dump->seen >= dump->opts.max_fibers) {
            dump->context.max_frames = dump->context.max_steps =
                0; /* from here on, fibers are only counted */
        }
        if (!weft__fiber_snapshot_slot(&dump->context, slot, &dump->snap)) {
            continue;
        }
        if (dump->seen < dump->opts.max_fibers) {
            dump->seen++;
            weft__fold_add(&dump->fold, &dump->snap);
        } else {
            dump->cut++;
        }
    }
}

static void begin_sampling(struct weft__dump *dump)
{
    const struct weft_dump_opts *o = &dump->opts;
    dump->no_sampling = NULL;
    if (!dump->context.max_frames || o->sample_signal < 0) {
        return;
    }
    int err = weft__sample_begin(o->sample_signal);
    dump->context.sampling = err == 0;
    if (err) {
        dump->no_sampling = err == -EBUSY
                                ? "the sample signal is in use by the program or by another dump"
                                : "no such signal";
    }
}

int weft__dump_run(struct weft__dump *dump, FILE *file, int fd)
{
    const struct weft_dump_opts *o = &dump->opts;
    dump->out.file = file;
    dump->out.fd = fd;
    dump->out.err = 0;
    dump->seen = dump->cut = 0;
    memset(&dump->fold, 0, sizeof dump->fold);
    dump->fold.max_shown = o->max_shown;
    memset(&dump->unwind_cache, 0,
           sizeof dump->unwind_cache); /* objects may be loaded and unloaded between
                                                      dumps */
    memset(&dump->symbols, 0, sizeof dump->symbols);
    dump->context = (struct weft__snapshot_context){
        .pool = o->pool,
        .group = (const struct weft__group_queues *)(const void *)o->group,
        .max_frames = o->no_frames || !weft__unwind_works() ? 0 : (int)o->max_frames,
        .max_steps = o->no_frames ? 0 : (int)o->max_frames,
        .sample_ns = o->sample_ns,
        .sample_budget = o->sample_ns < INT64_MAX / SAMPLES ? o->sample_ns * SAMPLES : INT64_MAX,
        .stack_sample = &dump->stack_sample,
        .unwind_cache = &dump->unwind_cache,
    };
    begin_sampling(dump);
    snapshot_all(dump);
    if (dump->context.sampling) {
        weft__sample_end();
    }
    if (o->format == WEFT_DUMP_JSON) {
        weft__dump_json(dump);
    } else {
        weft__dump_text(dump);
    }
    weft__fold_deinit(&dump->fold);
    return weft__writer_flush(&dump->out);
}

const char *weft__dump_symbol(struct weft__dump *dump, const void *pc, bool returns)
{
    const char *inside = (const char *)pc - returns;
    size_t at = ((uintptr_t)inside * 0x9e3779b97f4a7c15u >> 48) %
                (sizeof dump->symbols / sizeof *dump->symbols);
    if (dump->symbols[at].inside != inside) {
        dump->symbols[at].inside = inside;
        weft__symbol_format(pc, returns, dump->symbols[at].text, sizeof dump->symbols[at].text);
    }
    return dump->symbols[at].text;
}

int weft_dump(FILE *out, const struct weft_dump_opts *opts)
{
    int err = weft__dump_check(opts);
    if (err) {
        return err;
    }
    struct weft__dump *dump = weft__dump_create(opts);
    if (!dump) {
        return -ENOMEM;
    }
    err = weft__dump_run(dump, out, -1);
    weft__dump_destroy(dump);
    return err;
}
