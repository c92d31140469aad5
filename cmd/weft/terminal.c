#include "terminal.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/fiber.h>

enum { BAR = 30, REDRAW_NS = 50000000 };

static bool is_terminal, colours;

void terminal_open(void)
{
    const char *kind = getenv("TERM");
    const char *no_color = getenv("NO_COLOR");
    is_terminal = isatty(STDOUT_FILENO) && kind && strcmp(kind, "dumb") != 0;
    colours = is_terminal && !(no_color && *no_color);
}

static const char *paint(const char *code)
{
    return colours ? code : "";
}

#define BOLD paint("\033[1m")
#define DIM paint("\033[2m")
#define CYAN paint("\033[36m")
#define YELLOW paint("\033[33m")
#define PLAIN paint("\033[0m")

void terminal_title(const char *text)
{
    printf("%s%s%s\n", BOLD, text, PLAIN);
    fflush(stdout);
}

void terminal_heading(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("\n%s%s", BOLD, CYAN);
    vprintf(format, args);
    printf("%s\n", PLAIN);
    va_end(args);
    fflush(stdout);
}

void terminal_fact(const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("  %s%-12s%s ", DIM, name, PLAIN);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
    fflush(stdout);
}

void terminal_warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("  %s", YELLOW);
    vprintf(format, args);
    printf("%s\n", PLAIN);
    va_end(args);
    fflush(stdout);
}

enum { TEXT = 32 };

static char *next_text(void)
{
    static char texts[8][TEXT];
    static unsigned turn;
    return texts[turn++ % 8];
}

const char *terminal_number(uint64_t n)
{
    char *at = next_text() + TEXT - 1;
    *at = '\0';
    for (int digits = 0; digits == 0 || n > 0; digits++, n /= 10) {
        if (digits > 0 && digits % 3 == 0) {
            *--at = ',';
        }
        *--at = (char)('0' + n % 10);
    }
    return at;
}

const char *terminal_bytes(double bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    char *text = next_text();
    int unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++) {
        bytes /= 1024;
    }
    snprintf(text, TEXT, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

/* --- progress ------------------------------------------------------------------ */

void terminal_progress_begin(struct terminal_progress *progress, const char *what, long total)
{
    *progress = (struct terminal_progress){.what = what, .total = total};
    terminal_progress_show(progress, 0);
}

static void draw(const struct terminal_progress *progress, long done)
{
    int full = (int)(done * BAR / progress->total);
    printf("\r  %s%-12s%s %s", DIM, progress->what, PLAIN, CYAN);
    for (int i = 0; i < BAR; i++) {
        putchar(i < full ? '#' : '.');
    }
    printf("%s %s", PLAIN, terminal_number((uint64_t)done));
    fflush(stdout);
}

void terminal_progress_show(struct terminal_progress *progress, long done)
{
    int64_t now = weft_now();
    long quarter = done * 4 / progress->total;
    if (is_terminal) {
        if (now - progress->drawn_at >= REDRAW_NS || done == progress->total) {
            progress->drawn_at = now;
            draw(progress, done);
        }
    } else if (quarter > progress->quarter) {
        progress->quarter = quarter;
        terminal_fact(progress->what, "%s of %s", terminal_number((uint64_t)done),
                      terminal_number((uint64_t)progress->total));
    }
}

void terminal_progress_end(struct terminal_progress *progress)
{
    if (is_terminal) {
        printf("\r\033[K");
        fflush(stdout);
    }
    progress->total = 0;
}
