/* The command line tool `weft`: parses the command and its arguments. Each command has its own
 * file. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/base.h>

#include "demo.h"
#include "serve.h"

enum { EXIT_USAGE = 2, MOST_FIBERS = 100000000 };

static void usage(FILE *out)
{
    fputs(
        "usage: weft COMMAND\n"
        "\n"
        "  serve [DIR] ...     serve the files below DIR, or a small built-in site, over HTTP;\n"
        "                      weft serve --help lists the options\n"
        "  demo [--fibers N]   measure: a million fibers parked and woken, a tree of a million\n"
        "                      leaves, the statistics of the workers, dumps, a dispatcher, a deadlock.\n"
        "                      N: use N fibers, and a tree of at most N leaves\n"
        "  version             the version of the library\n"
        "  help                this text\n",
        out);
}

static int usage_error(const char *what, const char *word)
{
    fprintf(stderr, "weft: %s%s%s\n", what, word ? ": " : "", word ? word : "");
    usage(stderr);
    return EXIT_USAGE;
}

/* Parses a number of fibers; -1 if it is not one. */
static long parse_count(const char *text)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && n >= 1 && n <= MOST_FIBERS ? n : -1;
}

static int run_demo(int argc, char **argv)
{
    long fibers = 0;
    for (int i = 0; i < argc; i++) {
        const char *value;
        if (strncmp(argv[i], "--fibers=", 9) == 0) {
            value = argv[i] + 9;
        } else if (strcmp(argv[i], "--fibers") != 0) {
            return usage_error("demo: no such argument", argv[i]);
        } else if (i + 1 < argc) {
            value = argv[++i];
        } else {
            return usage_error("--fibers needs a number", NULL);
        }
        fibers = parse_count(value);
        if (fibers < 0) {
            return usage_error("not a number of fibers (1 .. 100000000)", value);
        }
    }
    return demo(fibers);
}

static int print_version(void)
{
    printf("weft %s\n", weft_version());
    return 0;
}

static int print_help(void)
{
    usage(stdout);
    return 0;
}

static bool is_one_of(const char *word, const char *name, const char *option)
{
    return strcmp(word, name) == 0 || strcmp(word, option) == 0;
}

/* If a supervisor starts us with a standard descriptor closed, the next socket would get its
 * number, and a client would receive what we print. */
static void fill_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) {
            return;
        }
    }
}

int main(int argc, char **argv)
{
    fill_standard_descriptors();
    if (argc < 2) {
        return usage_error("a command is missing", NULL);
    }
    if (strcmp(argv[1], "demo") == 0) {
        return run_demo(argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "serve") == 0) {
        return serve(argc - 2, argv + 2);
    }
    bool version = is_one_of(argv[1], "version", "--version");
    if (!version && !is_one_of(argv[1], "help", "--help")) {
        return usage_error("no such command", argv[1]);
    }
    if (argc > 2) {
        return usage_error("too many arguments", argv[2]);
    }
    return version ? print_version() : print_help();
}
