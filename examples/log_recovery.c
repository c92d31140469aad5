/* A log file that survives a crash: each record carries its length and a checksum and is flushed
 * before it counts as written. After a crash the log is read from its start; the first record that
 * is incomplete or damaged, and everything after it, is cut off, and the log continues there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

enum { RECORD_MAX = 200 };

struct record {
    uint32_t bytes, checksum; /* of text */
    char text[RECORD_MAX];
};
#define HEAD_BYTES offsetof(struct record, text)

struct log {
    int fd;
    int64_t end; /* where the next record begins */
};

static uint32_t checksum(const char *text, size_t n)
{
    uint32_t hash = 2166136261; /* FNV-1a */
    for (size_t i = 0; i < n; i++) {
        hash = (hash ^ (unsigned char)text[i]) * 16777619;
    }
    return hash;
}

static size_t make_record(struct record *out, const char *text)
{
    size_t n = strnlen(text, RECORD_MAX);
    *out = (struct record){.bytes = (uint32_t)n, .checksum = checksum(text, n)};
    memcpy(out->text, text, n);
    return HEAD_BYTES + n;
}

static int append(struct log *log, const char *text, int64_t deadline)
{
    struct record record;
    size_t n = make_record(&record, text);
    ssize_t written = weft_pwrite(log->fd, &record, n, log->end, deadline);
    if (written != (ssize_t)n) {
        return written < 0 ? (int)written : -EIO; /* the next append overwrites the part */
    }
    int err = weft_fsync(log->fd, true, deadline); /* the data is enough: no need for its times */
    log->end += err ? 0 : written;
    return err;
}

/* Reads the record at an offset. Returns its size in the file; 0 if there is no intact record. */
static ssize_t read_record(int fd, struct record *out, int64_t at, int64_t deadline)
{
    ssize_t n = weft_pread(fd, out, sizeof *out, at, deadline);
    if (n < (ssize_t)HEAD_BYTES || out->bytes > RECORD_MAX || (size_t)n < HEAD_BYTES + out->bytes ||
        checksum(out->text, out->bytes) != out->checksum) {
        return n < 0 ? n : 0;
    }
    return (ssize_t)(HEAD_BYTES + out->bytes);
}

/* Opens a log after a start or a crash, and prints its records. Returns how many it has. */
static int recover(struct log *log, int fd, int64_t deadline)
{
    struct record record;
    ssize_t n;
    int count = 0;
    *log = (struct log){.fd = fd};
    while ((n = read_record(fd, &record, log->end, deadline)) > 0) {
        printf("  %d: %.*s\n", ++count, (int)record.bytes, record.text);
        log->end += n;
    }
    int err = n < 0 ? (int)n : weft_ftruncate(fd, log->end, deadline);
    return err ? err : count;
}

/* --- usage ------------------------------------------------------------------------------ */

/* The machine stops in the middle of a write. */
static int crash_while_appending(const struct log *log)
{
    struct record record;
    size_t n = make_record(&record, "pay 100 to nobody");
    ssize_t written = weft_pwrite(log->fd, &record, n / 2, log->end, WEFT_FOREVER);
    return written == (ssize_t)(n / 2) ? 0 : -EIO;
}

static int use_log(int fd)
{
    struct log log;
    int64_t deadline = weft_after(WEFT_MINUTES(5));
    int count = recover(&log, fd, deadline);
    int err = count < 0 ? count : append(&log, "open account 7", deadline);
    err = err ? err : append(&log, "pay 20 to 7", deadline);
    err = err ? err : crash_while_appending(&log);
    if (err) {
        return err;
    }
    printf("after the crash:\n");
    count = recover(&log, fd, deadline);
    err = count < 0 ? count : append(&log, "pay 30 to 7", deadline);
    if (err || count != 2) {
        return err ? err : -EBADMSG;
    }
    printf("after a restart:\n");
    return recover(&log, fd, deadline) == 3 ? 0 : -EBADMSG;
}

static void *run(void *arg)
{
    int fd = *(int *)arg;
    int err = use_log(fd);
    weft_close(fd);
    return (void *)(intptr_t)err;
}

int main(void)
{
    char name[] = "/tmp/weft-log-XXXXXX";
    void *failure = NULL;
    int fd = mkstemp(name);
    if (fd < 0 || unlink(name) != 0) {
        perror(name);
        return 1;
    }
    int err = weft_run(&failure, run, &fd, NULL, WEFT_FOREVER);
    err = err ? err : (int)(intptr_t)failure;
    if (err) {
        fprintf(stderr, "log_recovery: %s\n", weft_strerror(err));
    }
    return err ? 1 : 0;
}
