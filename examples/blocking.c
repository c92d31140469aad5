/* Blocking functions called from fibers: here, reading directories. The fiber waits while its
 * worker runs other fibers. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <weft/weft.h>

/* An ordinary blocking function. It may use its caller's stack: the call returns only after the
 * function has returned. */
static void *count_entries(void *path)
{
    DIR *dir = opendir(path);
    long n = 0;
    while (dir && readdir(dir)) {
        n++;
    }
    if (dir) {
        closedir(dir);
    }
    return (void *)n;
}

static void *show(void *path)
{
    void *n = NULL;
    int err = weft_blocking_call(NULL, &n, count_entries, path, WEFT_FOREVER);
    printf("%-6s %ld entries\n", (char *)path, (long)n);
    return (void *)(long)err;
}

/* A function that may take too long is a job with its own memory, which its caller may abandon. The
 * last user of the job, the caller or the thread that runs it, frees it. */
struct slow_job {
    struct weft_blocking_job job; /* first */
    char answer[32];
};

static void slow_run(struct weft_blocking_job *job)
{
    struct slow_job *self = (struct slow_job *)(void *)job;
    usleep(300 * 1000); /* a slow remote server */
    snprintf(self->answer, sizeof self->answer, "too late");
}

static void slow_release(struct weft_blocking_job *job)
{
    free(job);
}

static int ask_slow(void)
{
    struct slow_job *job = calloc(1, sizeof *job);
    if (!job) {
        return -ENOMEM;
    }
    weft_blocking_job_init(&job->job, slow_run, slow_release);
    int err = weft_blocking_run(NULL, &job->job, weft_after(WEFT_MS(20)));
    printf("slow   %s\n", err == -ETIMEDOUT ? "no answer in 20 ms" : job->answer);
    weft_blocking_release(&job->job);
    return err == -ETIMEDOUT ? 0 : err;
}

static void *app(void *arg)
{
    static char paths[][8] = {"/", "/usr", "/etc"};
    weft_fiber fibers[3];
    for (int i = 0; i < 3; i++) {
        if (weft_spawn(&fibers[i], show, paths[i], NULL) != 0) {
            return arg;
        }
    }
    for (int i = 0; i < 3; i++) {
        weft_join(fibers[i], NULL, WEFT_FOREVER);
    }
    int err = ask_slow();
    weft_blocking_dump(NULL, stdout);
    return (void *)(long)err;
}

int main(void)
{
    void *failed = NULL;
    int err = weft_run(&failed, app, NULL, NULL, WEFT_FOREVER);
    return err == 0 && !failed ? 0 : 1;
}
