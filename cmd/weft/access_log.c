#include "access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, LINE = 2048, CLOSE_WAIT_S = 2 };

struct log {
    pthread_mutex_t lock;
    pthread_cond_t more;
    pthread_t thread;
    int fd;
    /* Under the lock. */
    char *filling, *writing;
    size_t used;
    uint64_t dropped;
    bool closing, sleeping;
    time_t second; /* the second that `time` shows */
    char time[40];
};

static uint64_t lines_in(const char *bytes, size_t n)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < n; i++) {
        lines += bytes[i] == '\n';
    }
    return lines;
}

/* Returns how many lines could not be written. */
static uint64_t write_out(int fd, const char *bytes, size_t n)
{
    while (n) {
        ssize_t put = write(fd, bytes, n);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return lines_in(bytes, n); /* the disk is full: later lines may succeed */
        }
        bytes += put;
        n -= (size_t)put;
    }
    return 0;
}

static void *run(void *arg)
{
    struct log *log = arg;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    weft_watchdog_ignore_thread(0);
    pthread_mutex_lock(&log->lock);
    while (!log->closing || log->used) {
        if (!log->used) {
            log->sleeping = true;
            pthread_cond_wait(&log->more, &log->lock);
            log->sleeping = false;
            continue;
        }
        char *full = log->filling;
        size_t n = log->used;
        log->filling = log->writing;
        log->writing = full;
        log->used = 0;
        pthread_mutex_unlock(&log->lock);
        uint64_t lost = write_out(log->fd, full, n);
        pthread_mutex_lock(&log->lock);
        log->dropped += lost;
    }
    pthread_mutex_unlock(&log->lock);
    return NULL;
}

int access_log_open(struct log **out, const char *path)
{
    struct log *log = calloc(1, sizeof *log);
    int err = -ENOMEM;
    if (!log) {
        return err;
    }
    log->fd = strcmp(path, "-") == 0 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                                     : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log->fd < 0) {
        err = -errno;
        free(log);
        return err;
    }
    pthread_mutex_init(&log->lock, NULL);
    pthread_cond_init(&log->more, NULL);
    log->filling = malloc(BUFFER_BYTES);
    log->writing = malloc(BUFFER_BYTES);
    if (log->filling && log->writing) {
        err = -pthread_create(&log->thread, NULL, run, log);
    }
    if (err) {
        free(log->filling);
        free(log->writing);
        close(log->fd);
        free(log);
        return err;
    }
    *out = log;
    return 0;
}

void access_log_close(struct log *log)
{
    if (!log) {
        return;
    }
    pthread_mutex_lock(&log->lock);
    log->closing = true;
    pthread_cond_signal(&log->more);
    pthread_mutex_unlock(&log->lock);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_WAIT_S;
    if (pthread_timedjoin_np(log->thread, NULL, &until) != 0) {
        return; /* a pipe without a reader: the thread and its lines end with the process */
    }
    pthread_mutex_destroy(&log->lock);
    pthread_cond_destroy(&log->more);
    free(log->filling);
    free(log->writing);
    close(log->fd);
    free(log);
}

/* Bytes from a client must not end a line or a quotation. */
static size_t quote(char *to, size_t room, const char *text, int len)
{
    size_t n = 0;
    for (int i = 0; i < len && n + 5 < room; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\') {
            n += (size_t)snprintf(to + n, 5, "\\x%02x", c);
        } else {
            to[n++] = (char)c;
        }
    }
    to[n] = '\0';
    return n;
}

/* The address in the usual form: without the port, which says nothing, without brackets, and
 * without the IPv6 prefix of an IPv4 client on a dual-stack listener. */
static void peer_text(const struct weft_addr *peer, char *out, size_t size)
{
    static const char mapped[] = "::ffff:";
    char text[WEFT_ADDR_STRLEN], *at = text;
    weft_addr_format(peer, text, sizeof text);
    if (peer->storage.ss_family != AF_UNIX) {
        bool v6 = text[0] == '[';
        *strrchr(text, v6 ? ']' : ':') = '\0';
        at += v6;
        if (strncmp(at, mapped, sizeof mapped - 1) == 0 && strchr(at, '.')) {
            at += sizeof mapped - 1;
        }
    }
    snprintf(out, size, "%s", at);
}

/* Under the lock. */
static const char *time_text(struct log *log)
{
    time_t now = time(NULL);
    if (now != log->second) {
        struct tm tm;
        localtime_r(&now, &tm);
        strftime(log->time, sizeof log->time, "%d/%b/%Y:%H:%M:%S %z", &tm);
        log->second = now;
    }
    return log->time;
}

void access_log_request(const struct weft_http_record *record, void *arg)
{
    struct log *log = arg;
    char peer[WEFT_ADDR_STRLEN], method[64], target[LINE / 4], referer[LINE / 4], agent[LINE / 4];
    peer_text(record->peer, peer, sizeof peer);
    quote(method, sizeof method, record->method, record->method_len);
    quote(target, sizeof target, record->target, record->target_len);
    quote(referer, sizeof referer, record->referer ? record->referer : "-",
          record->referer ? record->referer_len : 1);
    quote(agent, sizeof agent, record->agent ? record->agent : "-",
          record->agent ? record->agent_len : 1);
    pthread_mutex_lock(&log->lock);
    if (BUFFER_BYTES - log->used < LINE) {
        log->dropped++;
    } else {
        int n = snprintf(log->filling + log->used, LINE,
                         "%s - - [%s] \"%s %s HTTP/1.%d\" %d %llu \"%s\" \"%s\" %.6f\n", peer,
                         time_text(log), method, target, record->minor, record->status,
                         (unsigned long long)record->sent, referer, agent,
                         (double)record->duration_ns / 1e9);
        log->used += n < LINE ? (size_t)n : LINE - 1;
    }
    if (log->sleeping) {
        pthread_cond_signal(&log->more);
    }
    pthread_mutex_unlock(&log->lock);
}

uint64_t access_log_dropped(struct log *log)
{
    uint64_t n = 0;
    if (log) {
        pthread_mutex_lock(&log->lock);
        n = log->dropped;
        pthread_mutex_unlock(&log->lock);
    }
    return n;
}
