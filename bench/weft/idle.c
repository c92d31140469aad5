/* Finds which of 100,000 members have been idle for 60 s, with five methods, over 180 s of virtual
 * time in which a member is touched never, once or ten times a second until it becomes idle.
 * Prints, for each method and rate:
 *   idle_WAY_RATE          ns per touch (without touches: per add)
 *   idle_WAY_RATE_tick     us of the most expensive second of checks
 *   idle_WAY_RATE_late     worst lateness in ms; negative: early
 * Methods: scan (a), check every member each second; timer (b), a wheel timer that each touch sets
 * again; slots (c), 61 slots of one second, a touch moves the member; lazy (d), a wheel timer that
 * checks the time of the last touch; group (e), the core of weft_idle_group. Everything else is
 * left out: one thread, no lock except the wheel's own.
 */
#include "program.h"

#include "time/idle_list.h"
#include "time/wheel.h"

enum { MEMBERS = 100000, SECONDS = 180, PARTS = 10, SLOTS = 61 };
#define S INT64_C(1000000000)
#define PERIOD (60 * S)

struct member {
    struct weft__idle_list_node entry; /* first */
    struct weft__timer timer;
    struct member *next, *prev;
    int slot;
    bool out;
    int64_t touched; /* time of the last touch, as the method stores it */
    int64_t truth;
};

struct way {
    const char *name;
    void (*add)(struct member *member);
    void (*touch)(struct member *member);
    void (*look)(void); /* every tenth of a second, or every second */
    bool each_part;
};

static struct member members[MEMBERS];
static struct weft__wheel wheel;
static struct weft__idle_list idle_list;
static struct member slots[SLOTS]; /* list heads */
static int cursor;
static int64_t now, worst;
static long came_out;

static void come_out(struct member *member)
{
    int64_t late = now - member->truth - PERIOD;
    member->out = true;
    came_out++;
    if (worst < 0 ? late < worst : late < 0 || late > worst)
        worst = late;
}

/* (a) */
static void scan_touch(struct member *member)
{
    member->touched = now;
}

static void scan_look(void)
{
    for (int i = 0; i < MEMBERS; i++)
        if (!members[i].out && now - members[i].touched >= PERIOD)
            come_out(&members[i]);
}

/* (b) */
static void timer_expire(struct weft__timer *timer, void *arg)
{
    (void)arg;
    come_out((struct member *)(void *)((char *)timer - offsetof(struct member, timer)));
}

static void timer_touch(struct member *member)
{
    weft__wheel_rearm(&wheel, &member->timer, now + PERIOD);
}

static void timer_add(struct member *member)
{
    weft__timer_init(&member->timer, timer_expire);
    timer_touch(member);
}

static void wheel_look(void)
{
    while (weft__wheel_next(&wheel) <= now)
        weft__wheel_advance(&wheel, now, 256, NULL);
}

/* (c) The published algorithm: a touch moves the member into the slot after the cursor; it expires
 * when the cursor arrives there. */
static void slots_add(struct member *member)
{
    struct member *head = &slots[(cursor + SLOTS - 1) % SLOTS];
    member->next = head;
    member->prev = head->prev;
    head->prev->next = member;
    head->prev = member;
}

static void slots_touch(struct member *member)
{
    member->prev->next = member->next;
    member->next->prev = member->prev;
    slots_add(member);
}

static void slots_look(void)
{
    cursor = (cursor + 1) % SLOTS;
    struct member *head = &slots[cursor];
    for (struct member *m = head->next, *next; m != head; m = next) {
        next = m->next;
        come_out(m);
    }
    head->next = head->prev = head;
}

/* (d) */
static struct member *again; /* cannot be set again under the wheel's lock */

static void lazy_expire(struct weft__timer *timer, void *arg)
{
    struct member *member =
        (struct member *)(void *)((char *)timer - offsetof(struct member, timer));
    (void)arg;
    if (now - member->touched >= PERIOD) {
        come_out(member);
    } else {
        member->next = again;
        again = member;
    }
}

static void lazy_add(struct member *member)
{
    weft__timer_init(&member->timer, lazy_expire);
    member->touched = now;
    weft__wheel_add(&wheel, &member->timer, now + PERIOD);
}

static void lazy_look(void)
{
    wheel_look();
    for (; again; again = again->next)
        weft__wheel_add(&wheel, &again->timer, again->touched + PERIOD);
}

/* (e) */
static int64_t virtual_clock(void)
{
    return now;
}

static void group_add(struct member *member)
{
    weft__idle_list_add(&idle_list, &member->entry, now);
}

static void group_touch(struct member *member)
{
    weft__idle_list_touch(&idle_list, &member->entry);
}

static void group_look(void)
{
    size_t n;
    if (now < weft__idle_list_next(&idle_list))
        return;
    weft__idle_list_tick(&idle_list, virtual_clock, SIZE_MAX);
    for (struct weft__idle_list_node *q = weft__idle_list_take_expired(&idle_list, &n); q;
         q = q->next)
        come_out((struct member *)(void *)q);
}

static const struct way ways[] = {
    {"scan", scan_touch, scan_touch, scan_look, false},
    {"timer", timer_add, timer_touch, wheel_look, true},
    {"slots", slots_add, slots_touch, slots_look, false},
    {"lazy", lazy_add, scan_touch, lazy_look, true},
    {"group", group_add, group_touch, group_look, true},
};

static void begin(void)
{
    now = 1000 * S;
    worst = 0;
    came_out = cursor = 0;
    memset(members, 0, sizeof members);
    weft__wheel_init(&wheel, now, WEFT__WHEEL_TICK_SHIFT);
    must(weft__idle_list_init(&idle_list, PERIOD, S, now), "weft__idle_list_init");
    for (int i = 0; i < SLOTS; i++)
        slots[i].next = slots[i].prev = &slots[i];
}

/* A member is touched in one part of each second, or in all parts, until second i % 100. */
static bool touched_in(int i, int rate, int second, int part)
{
    return rate && second < i % 100 && (rate == PARTS || part == i % PARTS);
}

static void run(const struct way *way, int rate)
{
    double touching = 0, looking, dearest = 0;
    long touches = 0;
    begin();
    uint64_t start = now_ns();
    for (int i = 0; i < MEMBERS; i++) {
        members[i].truth = now;
        way->add(&members[i]);
    }
    double adding = ns_since(start);
    for (int second = 0; second < SECONDS; second++) {
        looking = 0;
        for (int part = 0; part < PARTS; part++) {
            static int which[MEMBERS];
            int n = 0;
            now += S / PARTS;
            for (int i = 0; i < MEMBERS; i++)
                if (touched_in(i, rate, second, part) && !members[i].out) {
                    members[i].truth = now;
                    which[n++] = i;
                }
            start = now_ns();
            for (int i = 0; i < n; i++)
                way->touch(&members[which[i]]);
            touching += ns_since(start);
            touches += n;
            start = now_ns();
            if (way->each_part || part == PARTS - 1)
                way->look();
            looking += ns_since(start);
        }
        dearest = looking > dearest ? looking : dearest;
    }
    char row[64];
    snprintf(row, sizeof row, "idle_%s_%d", way->name, rate);
    report("weft", row, "", touches ? touching / (double)touches : adding / MEMBERS, "ns");
    report("weft", row, "_tick", dearest / 1e3, "us");
    report("weft", row, "_late", (double)worst / 1e6, "ms");
    if (came_out != MEMBERS) {
        fprintf(stderr, "%s: %ld of %d came out\n", row, came_out, MEMBERS);
        exit(1);
    }
    weft__idle_list_deinit(&idle_list);
}

int main(void)
{
    static const int rates[] = {0, 1, PARTS};
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            run(&ways[i], rates[r]);
}
