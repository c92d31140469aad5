/* Lists of messages: one per line, "NUMBER MESSAGE" or "NUMBER+BEFORE MESSAGE", where
 *    \r \n \t \0 \\ \xHH   are bytes,
 *    \{N TEXT}             is TEXT (which may contain the escapes above), N times.
 * Empty lines and lines that begin with '#' are comments. */
#ifndef WEFT_TEST_PROTO_LIST_H
#define WEFT_TEST_PROTO_LIST_H

#include "check.h"

struct message {
    char file[64];
    int line, number, before;
    size_t len;
    unsigned char bytes[96 << 10];
};

static int hex_of(char c)
{
    return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

static void put_byte(struct message *m, int byte)
{
    CHECK(m->len < sizeof m->bytes);
    m->bytes[m->len++] = (unsigned char)byte;
}

/* Reads up to `stop` or the end; returns where it stopped. */
static const char *unescape(struct message *m, const char *from, char stop)
{
    while (*from && *from != stop) {
        if (*from != '\\') {
            put_byte(m, *from++);
            continue;
        }
        from++;
        switch (*from++) {
        case 'r':
            put_byte(m, '\r');
            break;
        case 'n':
            put_byte(m, '\n');
            break;
        case 't':
            put_byte(m, '\t');
            break;
        case '0':
            put_byte(m, 0);
            break;
        case '\\':
            put_byte(m, '\\');
            break;
        case 'x':
            put_byte(m, hex_of(from[0]) << 4 | hex_of(from[1]));
            from += 2;
            break;
        case '{': {
            char *text;
            long n = strtol(from, &text, 10);
            CHECK(*text == ' ' && n > 0);
            for (from = text + 1; n; n--) {
                text = (char *)(uintptr_t)unescape(m, from, '}');
            }
            CHECK(*text == '}');
            from = text + 1;
            break;
        }
        default:
            check_fail(m->file, m->line, "no such escape");
        }
    }
    return from;
}

/* Calls fn for each message of test/proto/<name>. Returns the number of messages. */
static int list_read(const char *name, void (*fn)(const struct message *message))
{
    static struct message m;
    static char path[4096], line[64 << 10];
    const char *slash = strrchr(__FILE__, '/');
    int count = 0;
    snprintf(path, sizeof path, "%.*s/%s", slash ? (int)(slash - __FILE__) : 1,
             slash ? __FILE__ : ".", name);
    FILE *file = fopen(path, "re");
    CHECK(file);
    snprintf(m.file, sizeof m.file, "%s", name);
    for (m.line = 1; fgets(line, sizeof line, file); m.line++) {
        char *text;
        line[strcspn(line, "\n")] = '\0';
        if (!*line || *line == '#') {
            continue;
        }
        m.number = (int)strtol(line, &text, 10);
        m.before = *text == '+' ? (int)strtol(text + 1, &text, 10) : 0;
        CHECK(text > line && *text == ' ');
        m.len = 0;
        unescape(&m, text + 1, '\0');
        fn(&m);
        count++;
    }
    fclose(file);
    return count;
}

#endif
