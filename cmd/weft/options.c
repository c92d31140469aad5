#include "options.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind {
    TEXT,
    LISTEN,
    ADMIN_HOST,
    FLAG,
    SECONDS,
    SECONDS_OR_0,
    COUNT,
    BYTES32,
    BYTES64,
    WORKERS,
    DRIVER,
    BALANCE,
    CONFIG
};

struct option {
    const char *name;
    enum kind kind;
    size_t at;
    const char *value, *help;
};

#define AT(field) offsetof(struct options, field)

static const struct option table[] = {
    {"listen", LISTEN, 0, "ADDR",
     "127.0.0.1:8080, [::1]:0, *:80, unix:/run/x.sock; may be repeated"},
    {"root", TEXT, AT(root), "DIR",
     "the directory to serve (same as DIR); default: the built-in site"},
    {"index", TEXT, AT(index), "NAME", "index file of a directory (index.html)"},
    {"listing", FLAG, AT(listing), NULL, "list directories that have no index file"},
    {"follow-symlinks", FLAG, AT(follow_symlinks), NULL,
     "follow symbolic links that stay below DIR"},
    {"dotfiles", FLAG, AT(dotfiles), NULL, "also serve names that begin with a dot"},
    {"admin", TEXT, AT(admin), "ADDR",
     "listener for /healthz, /readyz, /metrics, /debug/fibers, /debug/actors"},
    {"admin-host", ADMIN_HOST, 0, "NAME",
     "also accept this Host name there; localhost and addresses are accepted; may be repeated"},
    {"log", TEXT, AT(log), "FILE", "access log file; -: standard output"},
    {"workers", WORKERS, AT(workers), "N", "worker threads (one per CPU)"},
    {"driver", DRIVER, AT(driver), "NAME", "I/O driver: auto, epoll, uring or poll (auto)"},
    {"balance", BALANCE, AT(balance), "HOW",
     "worker for a connection: least, round-robin, hash (client address) or reuseport (least)"},
    {"drain", SECONDS, AT(drain_ns), "S", "seconds a stop waits for responses in progress (10)"},
    {"grace", SECONDS, AT(limits.grace_ns), "S",
     "seconds in a stop during which idle connections may send one more request (1)"},
    {"revalidate", SECONDS_OR_0, AT(revalidate_ns), "S",
     "seconds before a cached file is checked again (1); 0: no cache"},
    {"idle-timeout", SECONDS, AT(limits.idle_ns), "S", "idle timeout between two requests (60)"},
    {"rest-after", SECONDS, AT(limits.rest_ns), "S",
     "idle time after which a connection gives its fiber and buffers back (1)"},
    {"header-timeout", SECONDS, AT(limits.header_ns), "S",
     "timeout for the whole header of a request (10)"},
    {"body-timeout", SECONDS, AT(limits.body_ns), "S",
     "timeout for one wait for more of a body (10)"},
    {"body-rate", COUNT, AT(limits.body_rate), "N",
     "minimum bytes per second of a body after that wait (500)"},
    {"write-timeout", SECONDS, AT(limits.write_ns), "S",
     "timeout for a client that reads nothing (30)"},
    {"write-rate", COUNT, AT(limits.write_rate), "N",
     "minimum bytes per second that a client must read (500)"},
    {"write-burst", BYTES32, AT(limits.write_burst), "BYTES",
     "acknowledged bytes that count as credit for later (256k)"},
    {"max-line", BYTES32, AT(limits.line_bytes), "BYTES", "limit of the request line (8k)"},
    {"max-header", BYTES32, AT(limits.header_bytes), "BYTES",
     "limit of all header fields together (16k)"},
    {"max-fields", COUNT, AT(limits.fields), "N", "limit on the number of header fields (100)"},
    {"max-body", BYTES64, AT(limits.body_bytes), "BYTES", "limit of a request body (1m)"},
    {"max-requests", COUNT, AT(limits.requests), "N", "requests per connection (1000)"},
    {"max-pipelined", COUNT, AT(limits.pipelined), "N", "responses buffered before a write (64)"},
    {"max-connections", COUNT, AT(limits.connections), "N",
     "open connections (3/4 of the descriptors, at most 131072)"},
    {"max-per-address", COUNT, AT(limits.per_address), "N",
     "open connections per client address (half of that, at most 16384)"},
    {"config", CONFIG, 0, "FILE",
     "configuration file: one option and its value per line, # for comments"},
};
enum { OPTIONS = sizeof table / sizeof *table };

/* Numbers for which the server accepts only a range. */
static const struct range {
    size_t at;
    uint64_t least, most;
    const char *wrong;
} ranges[] = {
    {AT(limits.line_bytes), 64, 16 << 20, "not within 64 .. 16m"},
    {AT(limits.header_bytes), 1, 16 << 20, "not within 1 .. 16m"},
    {AT(limits.fields), 1, 65534, "not within 1 .. 65534"},
};
enum { RANGES = sizeof ranges / sizeof *ranges };

/* Where a value came from, for messages. */
struct place {
    const char *file; /* NULL: the command line */
    int line;
};

static bool report_error(const struct place *place, const char *what, const char *name,
                         const char *value)
{
    fprintf(stderr, "weft serve: ");
    if (place->file) {
        fprintf(stderr, "%s:%d: ", place->file, place->line);
    }
    fprintf(stderr, "%s%s", place->file ? "" : "--", name);
    fprintf(stderr, value ? ": %s: %s\n" : ": %s\n", what, value);
    return false;
}

/* --- values ----------------------------------------------------------------------------------- */

static bool read_seconds(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    double s = strtod(text, &end);
    if (errno || end == text || *end || !isfinite(s) || s < 0.001 || s > 1e8) {
        return false;
    }
    *out = (int64_t)(s * 1e9);
    return true;
}

static bool is_zero(const char *text)
{
    char *end;
    return strtod(text, &end) == 0 && end != text && !*end;
}

/* Parses a positive number, with a suffix k, m or g if `bytes`. */
static bool read_number(const char *text, uint64_t most, bool bytes, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    unsigned shift = 0;
    if (bytes && *end) {
        const char *unit = strchr("kKmMgG", *end);
        shift = unit ? 10 * (1 + (unsigned)(unit - "kKmMgG") / 2) : 0;
        end += unit ? 1 : 0;
    }
    if (errno || end == text || *end || text[0] < '0' || text[0] > '9' || n == 0 ||
        n > most >> shift) {
        return false;
    }
    *out = n << shift;
    return true;
}

static int which(const char *text, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static bool read_config(struct options *options, const char *path, const struct place *from);

/* Returns as set_value. */
static const char *set_number(const struct option *option, void *at, const char *value)
{
    bool wide = option->kind == BYTES64, bytes = option->kind != COUNT;
    uint64_t n;
    if (!read_number(value, wide ? INT64_MAX : UINT32_MAX, bytes, &n)) {
        return bytes ? "not a number of bytes (such as 65536, 64k, 1m)"
                     : "not a number (1 or more)";
    }
    for (int i = 0; i < RANGES; i++) {
        if (ranges[i].at == option->at && (n < ranges[i].least || n > ranges[i].most)) {
            return ranges[i].wrong;
        }
    }
    if (wide) {
        *(uint64_t *)at = n;
    } else {
        *(uint32_t *)at = (uint32_t)n;
    }
    return NULL;
}

/* Returns NULL if the value was set, otherwise a description of a valid value. */
static const char *set_value(struct options *options, const struct option *option,
                             const char *value)
{
    static const char *const drivers[] = {"auto", "epoll", "uring", "poll"};
    static const char *const balances[] = {"least", "round-robin", "hash", "reuseport"};
    void *at = (char *)options + option->at;
    uint64_t n;
    int i;
    switch (option->kind) {
    case TEXT:
        *(const char **)at = value;
        return *value ? NULL : "empty";
    case LISTEN:
        if (options->listen_count == OPTIONS_LISTENERS) {
            return "at most 16 are allowed";
        }
        options->listen[options->listen_count++] = value;
        return NULL;
    case ADMIN_HOST:
        if (options->admin_host_count == OPTIONS_LISTENERS) {
            return "at most 16 are allowed";
        }
        options->admin_hosts[options->admin_host_count++] = value;
        return NULL;
    case SECONDS:
        return read_seconds(value, at) ? NULL : "not a number of seconds (0.001 .. 100000000)";
    case SECONDS_OR_0: /* 0 is stored as -1, because 0 in the options is the default */
        if (is_zero(value)) {
            *(int64_t *)at = -1;
            return NULL;
        }
        return read_seconds(value, at) ? NULL : "not a number of seconds (0, 0.001 .. 100000000)";
    case COUNT:
    case BYTES32:
    case BYTES64:
        return set_number(option, at, value);
    case WORKERS:
        if (!read_number(value, 1024, false, &n)) {
            return "not a number of workers (1 .. 1024)";
        }
        *(long *)at = (long)n;
        return NULL;
    case DRIVER:
        i = which(value, drivers, 4);
        options->driver = (enum weft_driver)(i < 0 ? 0 : i);
        return i < 0 ? "must be auto, epoll, uring or poll" : NULL;
    case BALANCE:
        i = which(value, balances, 4);
        options->balance = (enum weft_balance)(i < 0 ? 0 : i);
        return i < 0 ? "must be least, round-robin, hash or reuseport" : NULL;
    case FLAG:
    case CONFIG:
        break;
    }
    return "takes no value";
}

static bool set(struct options *options, const struct option *option, const char *value,
                const struct place *place)
{
    if (option->kind == FLAG) {
        int on = value ? which(value, (const char *const[]){"no", "yes"}, 2) : 1;
        *(bool *)((char *)options + option->at) = on == 1;
        return on >= 0 || report_error(place, "must be yes or no", option->name, value);
    }
    if (!value) {
        return report_error(place, "needs a value", option->name, NULL);
    }
    if (option->kind == CONFIG) {
        return place->file ? report_error(place, "a configuration file cannot name another",
                                          option->name, value)
                           : read_config(options, value, place);
    }
    const char *wrong = set_value(options, option, value);
    return !wrong || report_error(place, wrong, option->name, value);
}

static const struct option *find(const char *name, size_t len)
{
    for (int i = 0; i < OPTIONS; i++) {
        if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

/* --- the configuration file ------------------------------------------------------------------- */

/* Splits a line into name and value, without surrounding blanks; the value is NULL if there is
 * none. Returns false for an empty line. */
static bool split(char *line, char **name, char **value)
{
    line[strcspn(line, "#\r\n")] = '\0';
    *name = line + strspn(line, " \t");
    char *end = *name + strcspn(*name, " \t");
    *value = end + strspn(end, " \t");
    *end = '\0';
    size_t len = strlen(*value);
    while (len && strchr(" \t", (*value)[len - 1])) {
        (*value)[--len] = '\0';
    }
    if (!len) {
        *value = NULL;
    }
    return **name;
}

struct options_text {
    struct options_text *next;
    char text[];
};

/* Returns NULL if there is no memory. */
static char *keep(struct options *options, const char *text)
{
    size_t size = strlen(text) + 1;
    struct options_text *kept = malloc(sizeof *kept + size);
    if (!kept) {
        return NULL;
    }
    kept->next = options->texts;
    options->texts = kept;
    return memcpy(kept->text, text, size);
}

void options_free(struct options *options)
{
    struct options_text *kept;
    while ((kept = options->texts)) {
        options->texts = kept->next;
        free(kept);
    }
}

static bool read_line(struct options *options, char *line, const struct place *place)
{
    char *name, *value;
    if (!split(line, &name, &value)) {
        return true;
    }
    const struct option *option = find(name, strlen(name));
    if (!option) {
        return report_error(place, "no such option", name, NULL);
    }
    if (value && option->kind != FLAG) {
        value = keep(options, value);
    }
    return set(options, option, value, place);
}

static bool read_config(struct options *options, const char *path, const struct place *from)
{
    FILE *file = fopen(path, "re");
    struct place place = {.file = path};
    char *line = NULL;
    size_t size = 0;
    bool good = true;
    if (!file) {
        return report_error(from, strerror(errno), "config", path);
    }
    while (good && getline(&line, &size, file) >= 0) {
        place.line++;
        good = read_line(options, line, &place);
    }
    if (good && ferror(file)) {
        good = report_error(from, "cannot be read", "config", path);
    }
    free(line);
    fclose(file);
    return good;
}

/* --- the command line ------------------------------------------------------------------------- */

static bool read_flag(struct options *options, int argc, char **argv, int *i)
{
    const struct place place = {.file = NULL};
    const char *name = argv[*i] + 2, *equals = strchr(name, '=');
    const struct option *option = find(name, equals ? (size_t)(equals - name) : strlen(name));
    if (!option) {
        fprintf(stderr, "weft serve: no such option: %s (weft serve --help lists them)\n",
                argv[*i]);
        return false;
    }
    const char *value = equals ? equals + 1 : NULL;
    if (!value && option->kind != FLAG && *i + 1 < argc) {
        value = argv[++*i];
    }
    return set(options, option, value, &place);
}

bool options_read(struct options *options, int argc, char **argv)
{
    *options = (struct options){.drain_ns = INT64_C(10000000000)};
    bool dir = false;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0) {
            if (!read_flag(options, argc, argv, &i)) {
                return false;
            }
        } else if (argv[i][0] == '-' || dir) {
            fprintf(stderr, "weft serve: %s: %s\n", dir ? "one directory only" : "no such option",
                    argv[i]);
            return false;
        } else {
            options->root = argv[i];
            dir = true;
        }
    }
    return true;
}

void options_help(FILE *out)
{
    fputs(
        "usage: weft serve [DIR] [OPTION]...\n"
        "\n"
        "Serves the files below DIR, or a small built-in site, over HTTP/1.1. Prints the addresses. SIGTERM: finishes\n"
        "the responses in progress; SIGINT: stops at once.\n"
        "\n",
        out);
    for (int i = 0; i < OPTIONS; i++) {
        char text[40];
        snprintf(text, sizeof text, "--%s %s", table[i].name, table[i].value ? table[i].value : "");
        fprintf(out, "  %-24s %s\n", text, table[i].help);
    }
}
