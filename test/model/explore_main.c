/* The explorer's command line, its reports, and traces. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "model/explore_internal.h"

#define NAMES 64

/* For a quick run: this many executions of each client, times QUICK_GROWTH in each round. */
#define QUICK_FIRST 60
#define QUICK_GROWTH 8

bool tracing;

/* ---- traces ---- */

static struct {
    uintptr_t at;
    size_t bytes;
    const char *name;
} names[NAMES];
static int name_count;

void trace_names_reset(void)
{
    name_count = 0;
}

void x_name(const void *memory, size_t bytes, const char *name)
{
    if (name_count < NAMES) {
        names[name_count].at = (uintptr_t)memory;
        names[name_count].bytes = bytes;
        names[name_count++].name = name;
    }
}

/* One of a few buffers, so that a line may use several. */
static char *buffer(void)
{
    static char buffers[8][80];
    static int next;
    return buffers[next++ % 8];
}

const char *memory_name(uintptr_t at)
{
    char *text = buffer();
    for (int i = 0; i < name_count; i++) {
        size_t offset = at - names[i].at;
        if (offset < names[i].bytes) {
            snprintf(text, 80, offset ? "%s+%zu" : "%s", names[i].name, offset);
            return text;
        }
    }
    snprintf(text, 80, "%#lx", (unsigned long)at);
    return text;
}

const char *value_text(uint64_t value)
{
    char *text = buffer();
    for (int i = 0; i < name_count; i++) {
        if (value - names[i].at < names[i].bytes) {
            snprintf(text, 80, "&%s", memory_name((uintptr_t)value));
            return text;
        }
    }
    if ((int64_t)value > -65536 && (int64_t)value < 65536) {
        snprintf(text, 80, "%ld", (long)value);
    } else {
        snprintf(text, 80, "%#lx", (unsigned long)value);
    }
    return text;
}

const char *order_name(memory_order order)
{
    static const char *const orders[] = {"relaxed", "acquire", "release", "acq_rel", "seq_cst"};
    return orders[order];
}

void trace_line(const struct x_site *site, const void *at, const char *operation,
                const char *format, ...)
{
    char detail[256], where[96] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    const char *expression = at ? memory_name((uintptr_t)at) : "";
    if (site) {
        expression = site->expression + (site->expression[0] == '&');
        const char *slash = strrchr(site->file, '/');
        snprintf(where, sizeof where, "%s:%d", slash ? slash + 1 : site->file, site->line);
    }
    char thread[8] = "main";
    if (self->index != MAIN) {
        snprintf(thread, sizeof thread, "T%d", self->index);
    }
    printf("  %-4s %-10s %-34s %-44s %s", thread, operation, expression, detail, where);
    const char *name = site ? memory_name((uintptr_t)at) : "";
    printf(name[0] && name[0] != '0' ? "  [%s]\n" : "\n", name);
}

/* ---- one client ---- */

static struct {
    const char *only, *replay;
    long samples, most;
    uint64_t seed;
    bool quick;
} options = {.most = 50000000, .seed = 1};

static const struct x_client *current;
static bool outcome_seen;

void x_outcome(bool seen)
{
    outcome_seen |= seen;
    if (seen && current->outcome == X_FORBIDDEN) {
        x_fail("an outcome that must not be");
    }
}

/* Its CPU time: independent of other load. */
static double now(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static enum result run_one(const struct x_client *client)
{
    search_begin_execution();
    enum result result = run_execution(client);
    if (result == COMPLETE) {
        search_completed();
    }
    search.pruned += result == PRUNED;
    return result;
}

/* Runs until the search ends, something fails, or the number is reached. *over: nothing is left. */
static enum result explore(const struct x_client *client, long most, bool *over)
{
    *over = false;
    for (long n = 0; n < most; n++) {
        if (run_one(client) == FAILED) {
            return FAILED;
        }
        if (!search_next()) {
            *over = true;
            return COMPLETE;
        }
    }
    return COMPLETE;
}

/* PRUNED: too many to explore all of them. A count, so that a slow machine gives the same
 * result. */
static enum result exhaust(const struct x_client *client, long most, bool *over)
{
    enum result result = explore(client, most, over);
    return result == COMPLETE && !*over ? PRUNED : result;
}

static void print_locations(const char *message)
{
    const char *pc = strstr(message, "(pc ");
    if (pc) {
        char command[128];
        snprintf(command, sizeof command, "addr2line -f -p -s -e /proc/%d/exe %lx", (int)getpid(),
                 strtoul(pc + 4, NULL, 16) - 1);
        fflush(stdout);
        if (system(command) != 0) {
            printf("  (addr2line would name that place)\n");
        }
    }
}

static void report_failure(const struct x_client *client)
{
    static char choices[20000];
    snprintf(choices, sizeof choices, "%s", search_string());
    printf("FAIL %s: %s\n", client->name, failure);
    tracing = true;
    search_script(choices);
    run_one(client);
    tracing = false;
    printf("  => %s\n", failure);
    print_locations(failure);
    printf("  replay: -c %s -r %s\n", client->name, choices[0] ? choices : "0");
}

static enum result search_client(const struct x_client *client, long most, bool *over)
{
    long samples = options.samples ? options.samples : client->samples;
    *over = false;
    search_start(EXHAUSTIVE, 0);
    ahead_start();
    if (!samples) {
        enum result first = exhaust(client, most, over);
        if (first != COMPLETE || !client->ahead) {
            return first;
        }
        search_start(EXHAUSTIVE, 0);
        ahead_guess();
        return exhaust(client, most, over);
    }
    enum result result = COMPLETE;
    uint64_t seed = options.seed;
    for (long done = 0; done < samples && result == COMPLETE; done += 1000, seed++) {
        search_start(seed % 2 ? PCT : RANDOM, seed);
        result = explore(client, samples - done < 1000 ? samples - done : 1000, over);
    }
    return result;
}

/* The values that loads may read ahead were collected by the exploration before. */
static void replay_start(const struct x_client *client)
{
    bool over;
    search_start(EXHAUSTIVE, 0);
    ahead_start();
    if (client->ahead && exhaust(client, options.most, &over) == COMPLETE) {
        ahead_guess();
    }
}

enum answer { YES, NO, NONE };

/* YES if it ended as expected: everything was explored, or all samples taken. NONE: there were more
 * executions than `most`. */
static enum answer run_client(const struct x_client *client, long most)
{
    current = client;
    outcome_seen = false;
    if (options.replay) {
        replay_start(client);
        tracing = true;
        search_script(options.replay);
        bool failed = run_one(client) == FAILED;
        printf("%s %s\n", client->name, failed ? failure : "passes");
        return failed ? NO : YES;
    }
    double began = now();
    bool over;
    enum result result = search_client(client, most, &over);
    if (result == PRUNED && most < options.most) {
        return NONE;
    }
    bool sampled = options.samples || client->samples;
    const char *how = over ? "exhausted" : sampled ? "sampled" : "NOT EXHAUSTED";
    bool good = result != PRUNED && (over || sampled);
    if (client->failure) {
        good = result == FAILED && strstr(failure, client->failure);
        how = good ? "fails as it must" : "DOES NOT FAIL AS IT MUST";
    } else if (result == FAILED) {
        good = false;
        how = "FAILED";
    } else if (client->outcome == X_REACHABLE) {
        good = good && outcome_seen;
        how = !good     ? "OUTCOME NOT REACHED"
              : sampled ? "outcome reached"
                        : "outcome reached, exhausted";
    } else if (client->outcome == X_FORBIDDEN && good) {
        how = sampled ? "outcome not reached" : "outcome never reached, exhausted";
    }
    printf("%-4s %-28s %7ld executions %6zu graphs %8ld pruned %8zu states %3d deep %6.2f s  %s",
           good ? "ok" : "FAIL", client->name, search.complete, search.graphs, search.pruned,
           search.states, search.depth, now() - began, how);
    if (client->ahead) {
        printf(", also ahead");
    }
    if (client->preemptions) {
        printf(", at most %d preemptions", client->preemptions);
    }
    if (client->stale) {
        printf(", at most %d stale reads", client->stale);
    }
    printf("\n");
    if (!good && result == FAILED && options.quick) {
        printf("FAIL %s: %s\n", client->name, failure);
    } else if (!good && result == FAILED) {
        report_failure(client);
    }
    fflush(stdout);
    return good ? YES : result == PRUNED ? NONE : NO;
}

static bool is_chosen(const struct x_client *client)
{
    return !options.only || strcmp(options.only, client->name) == 0;
}

static enum answer run_all(const struct x_client *clients, size_t count)
{
    enum answer all = YES;
    for (size_t i = 0; i < count; i++) {
        enum answer one = is_chosen(&clients[i]) ? run_client(&clients[i], options.most) : YES;
        all = one > all ? one : all;
    }
    return all;
}

/* One round of a quick run, over the clients that have no result yet. */
static enum answer run_round(const struct x_client *clients, size_t count, bool *ended, long most)
{
    enum answer all = YES;
    for (size_t i = 0; i < count && all != NO; i++) {
        if (!ended[i] && is_chosen(&clients[i])) {
            enum answer one = run_client(&clients[i], most);
            ended[i] = one == YES;
            all = one == YES ? all : one;
        }
    }
    return all;
}

/* A little of each client first, then more of the clients that have not ended: a failure that one
 * client shows early must not wait for the whole exploration of another. */
static enum answer run_quick(const struct x_client *clients, size_t count)
{
    bool *ended = calloc(count, sizeof *ended);
    if (!ended) {
        return NONE;
    }
    long most = QUICK_FIRST;
    enum answer all;
    do {
        most = most < options.most / QUICK_GROWTH ? most * QUICK_GROWTH : options.most;
        all = run_round(clients, count, ended, most);
    } while (all == NONE && most < options.most);
    free(ended);
    return all;
}

static void help(const char *program)
{
    printf("%s [-c CLIENT] [-r STRING] [-n SAMPLES] [-s SEED] [-m MOST] [-q] [-a] [-l]\n"
           "  -c  only this client\n"
           "  -r  replay the choices that a failure printed, with a trace\n"
           "  -n  sample so many executions, PCT and random by turns, instead of all\n"
           "  -s  first seed of the samples (1)\n"
           "  -m  executions per client, at most\n"
           "  -q  no traces, a little of each client first, stop at the first failure\n"
           "  -a  explore states that were met before again (checks the explorer)\n"
           "  -l  list the clients\n",
           program);
}

int x_main(int argc, char **argv, const struct x_client *clients, size_t count)
{
    bool list = false;
    int option;
    while ((option = getopt(argc, argv, "c:r:n:s:m:qalh")) != -1) {
        switch (option) {
        case 'c':
            options.only = optarg;
            break;
        case 'r':
            options.replay = optarg;
            break;
        case 'n':
            options.samples = atol(optarg);
            break;
        case 's':
            options.seed = strtoull(optarg, NULL, 0);
            break;
        case 'm':
            options.most = atol(optarg);
            break;
        case 'q':
            options.quick = true;
            break;
        case 'a':
            search_prunes = false;
            break;
        case 'l':
            list = true;
            break;
        default:
            help(argv[0]);
            return option == 'h' ? 0 : 2;
        }
    }
    size_t chosen = 0;
    for (size_t i = 0; i < count; i++) {
        chosen += is_chosen(&clients[i]);
        if (list) {
            printf("%s\n", clients[i].name);
        }
    }
    if (list) {
        return 0;
    }
    if (chosen == 0) {
        fprintf(stderr, "no client %s\n", options.only ? options.only : "");
        return 2;
    }
    enum answer all = options.quick ? run_quick(clients, count) : run_all(clients, count);
    return all == YES ? 0 : all == NO ? 1 : 3; /* 3: not a failure, but no result either */
}
