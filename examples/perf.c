/* Perf events: fibers encode frames, and every 20 ms a reporter prints the cost of the encoding and
 * of the runtime itself since the last report. */
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { ENCODERS = 4, REPORTS = 3 };

static unsigned encode_type;
static atomic_bool done;

/* Encodes a frame of this many numbers; the cost is reported under the name "encode". */
static weft_buf *encode(unsigned numbers)
{
    int64_t began = weft_perf_begin(encode_type);
    weft_buf *frame = weft_buf_alloc(numbers * 11, 0);
    for (unsigned i = 0; frame && i < numbers; i++) {
        char text[12];
        int n = snprintf(text, sizeof text, "%u,", i * i);
        for (int k = 0; k < n; k++)
            *weft_buf_put(frame, 1) = (unsigned char)text[k];
    }
    weft_perf_end(encode_type, began, numbers, frame ? frame->len : 0);
    return frame;
}

static void *encoder(void *arg)
{
    unsigned numbers = (unsigned)(uintptr_t)arg;
    while (!atomic_load(&done)) {
        weft_buf_free(encode(numbers));
        weft_sleep(weft_after(WEFT_MS(1)));
    }
    return NULL;
}

static void *report(void *collector)
{
    for (unsigned i = 0; i < ENCODERS; i++)
        weft_spawn(NULL, encoder, (void *)(uintptr_t)(50 << i), NULL);
    for (int i = 0; i < REPORTS; i++) {
        weft_sleep(weft_after(WEFT_MS(20)));
        weft_collector_dump(collector, stdout);
        weft_collector_reset(collector);
        puts("");
    }
    atomic_store(&done, true);
    return NULL;
}

int main(void)
{
    weft_collector *collector;
    int type = weft_perf_register("encode");
    if (type < 0 ||
        weft_collector_create(&collector, &(struct weft_collector_opts){.prefix = "app"}))
        return 1;
    encode_type = (unsigned)type;
    int err = weft_collector_start(collector);
    if (!err)
        err = weft_run(NULL, report, collector, NULL, WEFT_FOREVER);
    weft_collector_destroy(collector);
    return err != 0;
}
