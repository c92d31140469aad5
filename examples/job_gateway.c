/* A gateway that runs one job of a client at a time: each line is a job, which runs on a thread of a
 * blocking pool, because it computes for long. Until the job is done the connection is paused: the
 * client's further lines stay in its socket, and TCP slows the client down. The job's fiber knows
 * the connection by its id only, so the client may leave meanwhile.
 *
 *     N newline     answer: "N: started" and, later, "N: SUM" (of the numbers 1 to N) */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

static struct {
    weft_server *server;
    weft_blocking_pool *threads;
    weft_scope *jobs; /* all of them end before the program does */
} gateway;

struct job {
    weft_conn_id client;
    unsigned long n, sum;
};

/* On a thread. */
static void *compute(void *arg)
{
    struct job *job = arg;
    for (unsigned long i = 1; i <= job->n; i++) {
        job->sum += i;
    }
    return NULL;
}

/* A fiber: waits for the thread, answers, and lets the client's next line in. */
static int run_job(void *arg)
{
    struct job *job = arg;
    char text[64];
    int err = weft_blocking_call(gateway.threads, NULL, compute, job, WEFT_FOREVER);
    int len = err ? snprintf(text, sizeof text, "%lu: failed\n", job->n)
                  : snprintf(text, sizeof text, "%lu: %lu\n", job->n, job->sum);
    weft_buf *answer = weft_buf_copy(text, (size_t)len);
    if (answer && weft_server_send(gateway.server, job->client, answer) != 0) {
        weft_buf_free(answer); /* the client has left */
    }
    weft_server_resume(gateway.server, job->client);
    free(job);
    return 0;
}

static int start_job(weft_conn *conn, const char *line, size_t n, void *arg)
{
    char number[24] = "", text[64];
    (void)arg;
    memcpy(number, line, n < sizeof number - 1 ? n : sizeof number - 1);
    struct job *job = calloc(1, sizeof *job);
    if (!job) {
        return -ENOMEM;
    }
    *job = (struct job){.client = weft_conn_get_id(conn), .n = strtoul(number, NULL, 10)};
    int len = snprintf(text, sizeof text, "%lu: started\n", job->n);
    weft_conn_pause(conn);
    int err = weft_conn_send(conn, text, (size_t)len, WEFT_FOREVER);
    err = err ? err : weft_conn_flush(conn, WEFT_FOREVER); /* before the job's answer */
    err = err ? err : weft_scope_spawn(gateway.jobs, NULL, run_job, job, NULL);
    if (err) {
        free(job);
    }
    return err;
}

static const struct weft_protocol jobs = {
    .name = "jobs", .framing = WEFT_FRAMING_LINE, .handle = start_job};

/* Sends all lines at once; the answers come one by one. */
static int use(const struct weft_addr *at)
{
    static const char sent[] = "1000000\n10\n3\n";
    static const char expected[] = "1000000: started\n1000000: 500000500000\n"
                                   "10: started\n10: 55\n3: started\n3: 6\n";
    char got[sizeof expected] = "";
    int fd = weft_connect(at, weft_after(WEFT_SECONDS(10)));
    if (fd < 0) {
        return fd;
    }
    int err = weft_write_all(fd, sent, sizeof sent - 1, NULL, weft_after(WEFT_SECONDS(10)));
    err = err ? err : weft_read_full(fd, got, sizeof got - 1, NULL, weft_after(WEFT_SECONDS(60)));
    fputs(got, stdout);
    weft_close(fd);
    return err || strcmp(got, expected) != 0 ? -EIO : 0;
}

static void *run(void *arg)
{
    weft_scope scope;
    struct weft_addr at;
    (void)arg;
    gateway.jobs = &scope;
    if (weft_scope_open(&scope, NULL) != 0) {
        return (void *)1;
    }
    int err = weft_blocking_create(&gateway.threads, NULL);
    err = err ? err : weft_server_create(&gateway.server, NULL);
    err = err ? err : weft_server_listen(gateway.server, &at, "127.0.0.1:0", &jobs, NULL);
    err = err ? err : use(&at);
    if (err) {
        fprintf(stderr, "job_gateway: %s\n", weft_strerror(err));
        exit(1);
    }
    weft_server_stop(gateway.server, weft_after(WEFT_SECONDS(5)));
    weft_scope_close(&scope, WEFT_FOREVER);
    weft_server_destroy(gateway.server);
    weft_blocking_stop(gateway.threads, WEFT_FOREVER);
    weft_blocking_destroy(gateway.threads);
    return NULL;
}

int main(void)
{
    void *failed = NULL;
    return weft_run(&failed, run, NULL, NULL, WEFT_FOREVER) || failed;
}
