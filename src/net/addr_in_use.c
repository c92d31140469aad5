/* The kernel's socket tables list the inodes of the sockets that have the address; the descriptor
 * lists of the processes say which process has such an inode open. A socket that is in a table but
 * in no list belongs to no live process. */
#include "net/addr_in_use.h"

#include <dirent.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_SOCKETS = 8, FIELDS = 10 };

struct sockets {
    unsigned long inode[MAX_SOCKETS];
    int count;
    bool other_user; /* one of them belongs to another user, whose descriptors are not visible */
};

/* Split a line into fields; the last field is the rest of the line. Returns the number of
 * fields. */
static int split(char *line, char *fields[], int most)
{
    int n = 0;
    line[strcspn(line, "\n")] = '\0';
    for (char *at = line + strspn(line, " "); *at && n < most; n++) {
        fields[n] = at;
        if (n + 1 == most) {
            return most;
        }
        at += strcspn(at, " ");
        if (*at) {
            *at++ = '\0';
        }
        at += strspn(at, " ");
    }
    return n;
}

static void add(struct sockets *found, const char *inode)
{
    if (found->count < MAX_SOCKETS) {
        found->inode[found->count++] = strtoul(inode, NULL, 10);
    }
}

/* "sl local remote state queues timer retransmits uid timeout inode ...". Only the port is
 * compared: a wildcard address conflicts with every other address. */
static void match_inet(char *fields[], int n, unsigned port, int type, struct sockets *found)
{
    const char *colon = n == FIELDS ? strrchr(fields[1], ':') : NULL;
    bool listens = type != SOCK_STREAM || (colon && strcmp(fields[3], "0A") == 0);
    if (!colon || !listens || strtoul(colon + 1, NULL, 16) != port) {
        return;
    }
    uid_t self = geteuid();
    found->other_user |= self != 0 && strtoul(fields[7], NULL, 10) != self;
    add(found, fields[9]);
}

/* "number references protocol flags type state inode path"; an abstract name begins with '@'. */
static void match_unix(char *fields[], int n, const char *name, struct sockets *found)
{
    if (n == 8 && strcmp(fields[7], name) == 0) {
        add(found, fields[6]);
    }
}

static void name_of(const struct weft_addr *addr, char *out, size_t size)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)&addr->storage;
    size_t len = addr->len - offsetof(struct sockaddr_un, sun_path);
    bool abstract = len && !un->sun_path[0];
    snprintf(out, size, "%s%.*s", abstract ? "@" : "", (int)(len - abstract),
             un->sun_path + abstract);
}

static void scan_table(const char *table, const struct weft_addr *addr, int type,
                       struct sockets *found)
{
    FILE *file = fopen(table, "re");
    char *line = NULL, *fields[FIELDS], name[sizeof(struct sockaddr_un) + 1];
    size_t size = 0;
    bool local = addr->storage.ss_family == AF_UNIX;
    if (!file) {
        return;
    }
    if (local) {
        name_of(addr, name, sizeof name);
    }
    while (getline(&line, &size, file) >= 0) {
        int n = split(line, fields, local ? 8 : FIELDS);
        if (local) {
            match_unix(fields, n, name, found);
        } else {
            match_inet(fields, n, (unsigned)weft_addr_port(addr), type, found);
        }
    }
    free(line);
    fclose(file);
}

static bool has_one_of(const struct sockets *sockets, const char *pid)
{
    char path[64], target[64];
    bool has = false;
    const struct dirent *entry;
    snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *dir = opendir(path);
    while (dir && !has && (entry = readdir(dir))) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);
        if (n > 8 && memcmp(target, "socket:[", 8) == 0) {
            target[n] = '\0';
            for (int i = 0; i < sockets->count; i++) {
                has |= strtoul(target + 8, NULL, 10) == sockets->inode[i];
            }
        }
    }
    if (dir) {
        closedir(dir);
    }
    return has;
}

static bool is_held_by_any(const struct sockets *sockets)
{
    const struct dirent *entry;
    bool held = false;
    DIR *dir = opendir("/proc");
    while (dir && !held && (entry = readdir(dir))) {
        held = entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
               has_one_of(sockets, entry->d_name);
    }
    if (dir) {
        closedir(dir);
    }
    return held;
}

enum weft__addr_owner weft__addr_find_owner(const struct weft_addr *addr, int type)
{
    struct sockets found = {.count = 0};
    if (addr->storage.ss_family == AF_UNIX) {
        scan_table("/proc/net/unix", addr, type, &found);
    } else {
        scan_table(type == SOCK_STREAM ? "/proc/net/tcp" : "/proc/net/udp", addr, type, &found);
        scan_table(type == SOCK_STREAM ? "/proc/net/tcp6" : "/proc/net/udp6", addr, type, &found);
    }
    if (!found.count) {
        return WEFT__ADDR_OWNER_UNKNOWN;
    }
    return has_one_of(&found, "self")                   ? WEFT__ADDR_OWNER_SELF
           : found.other_user || is_held_by_any(&found) ? WEFT__ADDR_OWNER_OTHER
                                                        : WEFT__ADDR_OWNER_UNKNOWN;
}
