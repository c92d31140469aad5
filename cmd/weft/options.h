/* The options of `weft serve`, from the command line and from a configuration file: the same names
 * in both. */
#ifndef WEFT_CMD_OPTIONS_H
#define WEFT_CMD_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include <weft/weft.h>

#define OPTIONS_LISTENERS 16

struct options {
    const char *root; /* NULL: the built-in site */
    const char *listen[OPTIONS_LISTENERS];
    int listen_count;
    const char *admin_hosts[OPTIONS_LISTENERS];
    int admin_host_count;
    const char *admin, *log, *index;
    long workers;
    enum weft_driver driver;
    enum weft_balance balance;
    bool listing, follow_symlinks, dotfiles;
    int64_t drain_ns, revalidate_ns;
    struct weft_http_server_limits limits;
    struct options_text *texts; /* strings read from configuration files */
};

/* Parses the options. Returns false after printing the error to stderr. Strings are borrowed from
 * argv, or kept until options_free, which must be called in either case. */
bool options_read(struct options *options, int argc, char **argv);
void options_free(struct options *options);
void options_help(FILE *out);

#endif
