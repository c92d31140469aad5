/* Booking a trip, all of it or nothing: a trip is an actor that is linked to one actor per part. If
 * a part fails, the trip is notified, calls the other parts off and reports why. If all parts are
 * booked, the trip unlinks them, and the bookings outlive it. While it books, the trip monitors the
 * bank: without a bank there is no trip. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { FLIGHT, HOTEL, CAR, PARTS };

static atomic_int cars = 1; /* enough for one trip */
static atomic_int confirmed, called_off;
static weft_pid bank;

/* --- a part: a flight, a hotel or a car ----------------------------------------------------- */

struct part {
    bool confirmed;
};

static int run_part(weft_actor *self, const struct weft_actor_event *events, size_t n,
                    weft_out *out)
{
    static const char why[] = "no cars are left";
    struct part *part = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (events[i].kind == WEFT_EVENT_CALL) { /* "confirm" */
            part->confirmed = true;
            weft_actor_reply(events[i].tag, 0, NULL);
        } else if (events[i].tag == CAR && atomic_fetch_sub(&cars, 1) <= 0) {
            weft_out_exit(out, -ENOENT, weft_buf_copy(why, sizeof why));
        } else {
            weft_actor_send(events[i].from, "booked", 0, NULL, WEFT_BY_POLICY);
        }
    }
    return 0;
}

/* Called however the part ends. */
static void close_part(weft_actor *self)
{
    const struct part *part = weft_actor_state(self);
    atomic_fetch_add(part->confirmed ? &confirmed : &called_off, 1);
}

static const struct weft_actor_kind part_kind = {
    .name = "part", .state_bytes = sizeof(struct part), .step = run_part, .close = close_part};

/* The bank only has to exist. */
static int run_bank(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    return weft_actor_receive(&event, WEFT_FOREVER); /* the cancel at the end of the program */
}

static const struct weft_actor_kind bank_kind = {.name = "bank", .run = run_bank};

/* --- a trip --------------------------------------------------------------------------------- */

struct trip {
    weft_pid parts[PARTS];
    int started;
};

static int start_parts(weft_actor *self, struct trip *trip)
{
    int err = 0;
    for (int i = FLIGHT; i < PARTS && !err; i++) {
        err = weft_actor_spawn(weft_actor_host(self), &trip->parts[i], &part_kind, NULL, NULL);
        err = err ? err : weft_actor_link(self, trip->parts[i]);
        err =
            err ? err : weft_actor_send(trip->parts[i], "book", (uint64_t)i, NULL, WEFT_BY_POLICY);
        trip->started += !err;
    }
    return err;
}

/* Waits until all parts are booked. Returns the error of the first part that fails. */
static int wait_booked(void)
{
    const struct weft_actor_event *event;
    for (int booked = 0; booked < PARTS; booked++) {
        int err = weft_actor_receive(&event, WEFT_FOREVER);
        if (err || event->kind == WEFT_EVENT_CANCEL) {
            return err ? err : -ECANCELED;
        }
        if (event->kind != WEFT_EVENT_MESSAGE) { /* a part has exited, or the bank is down */
            printf("the trip fails: %s\n",
                   event->reason ? (const char *)event->reason->data : weft_strerror(event->error));
            return event->error ? event->error : -ESRCH;
        }
    }
    return 0;
}

static bool is_exit(const struct weft_actor_event *event, void *arg)
{
    (void)arg;
    return event->kind == WEFT_EVENT_EXIT;
}

/* Sends the parts an exit signal, which they do not trap, and waits until they have ended. */
static void call_off(const struct trip *trip)
{
    static const char why[] = "the trip is off";
    const struct weft_actor_event *event;
    int ending = 0;
    for (int i = 0; i < trip->started; i++) {
        ending += weft_actor_exit(trip->parts[i], -ECANCELED, weft_buf_copy(why, sizeof why)) == 0;
    }
    while (ending-- > 0 && weft_actor_receive_if(&event, is_exit, NULL, WEFT_FOREVER) == 0) {
    }
}

static int book(weft_actor *self, weft_buf **result)
{
    struct trip *trip = weft_actor_state(self);
    uint64_t ref;
    weft_actor_trap(self, true); /* the exit of a part is an event */
    int err = weft_actor_monitor(self, &ref, bank);
    if (err) {
        return err;
    }
    err = start_parts(self, trip);
    err = err ? err : wait_booked();
    weft_actor_demonitor(self, ref);
    for (int i = 0; i < PARTS && !err; i++) {
        weft_actor_unlink(self, trip->parts[i]);
        err = weft_actor_call(trip->parts[i], NULL, "confirm", NULL, WEFT_FOREVER);
    }
    if (err) {
        call_off(trip);
        return err;
    }
    *result = weft_buf_copy(&trip->started, sizeof trip->started);
    return 0;
}

static const struct weft_actor_kind trip_kind = {
    .name = "trip", .state_bytes = sizeof(struct trip), .run = book};

int main(void)
{
    weft_host *host;
    weft_buf *result = NULL;
    if (weft_host_create(&host, &(struct weft_host_opts){.workers = 2}) ||
        weft_actor_spawn(host, &bank, &bank_kind, NULL, NULL)) {
        fprintf(stderr, "all_or_nothing: cannot start\n");
        return 1;
    }
    int good = weft_actor_exec(host, &result, &trip_kind, NULL, NULL, WEFT_FOREVER);
    printf("the first trip: %s\n", good ? weft_strerror(good) : "booked");
    int bad = weft_actor_exec(host, NULL, &trip_kind, NULL, NULL, WEFT_FOREVER);
    printf("the second trip: %s\n", bad ? weft_strerror(bad) : "booked");
    weft_buf_free(result);
    int forced = weft_host_stop(host, NULL, weft_after(WEFT_MINUTES(1)));
    weft_host_destroy(host);
    printf("%d parts confirmed, %d not\n", atomic_load(&confirmed), atomic_load(&called_off));
    bool ok = good == 0 && bad == -ENOENT && !forced && atomic_load(&confirmed) == PARTS &&
              atomic_load(&called_off) == PARTS;
    return ok ? 0 : 1;
}
