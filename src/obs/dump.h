/* The internal interface of the dump. The public contract is <weft/inspect.h>. */
#ifndef WEFT_OBS_DUMP_H
#define WEFT_OBS_DUMP_H

#include <weft/inspect.h>

#include "obs/fold.h"
#include "obs/writer.h"

/* The memory of a dump besides the caller's stack. Mapped, not allocated. */
struct weft__dump {
    struct weft_dump_opts opts; /* with the defaults filled in */
    struct weft__writer out;
    struct weft__snapshot_context context;
    struct weft__fiber_snapshot snap;
    struct weft__stack_sample stack_sample;
    struct weft__unwind_cache unwind_cache;
    struct weft__fold fold;
    /* Fibers that were inspected, and fibers that were not because there were too many. */
    size_t seen, cut;
    const char *no_sampling; /* why running fibers are not sampled; NULL: they are */
    struct {
        const char *inside; /* the instruction */
        char text[144];
    } symbols[256]; /* the last ones that were looked up */
};

/* 0 or -EINVAL. */
int weft__dump_check(const struct weft_dump_opts *opts);
/* NULL: no memory. */
struct weft__dump *weft__dump_create(const struct weft_dump_opts *opts);
void weft__dump_destroy(struct weft__dump *dump);
/* Inspect all fibers and write the result, to a stream or to a descriptor. */
int weft__dump_run(struct weft__dump *dump, FILE *file, int fd);

/* The symbol of a frame, cached. */
const char *weft__dump_symbol(struct weft__dump *dump, const void *pc, bool returns);
void weft__dump_text(struct weft__dump *dump);
void weft__dump_json(struct weft__dump *dump);

#endif
