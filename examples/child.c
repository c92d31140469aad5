/* Child processes and signals as waits: one fiber starts programs and waits for them, another waits
 * for SIGTERM. */
/* not under: qemu */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/types.h>
#include <weft/weft.h>

static void tell(const char *name, int pid, const struct weft_process_status *status)
{
    if (status->signal) {
        printf("%s (process %d): ended by signal %d\n", name, pid, status->signal);
    } else {
        printf("%s (process %d): exit code %d\n", name, pid, status->code);
    }
}

/* Runs a program and kills it when the time limit expires. */
static int run(const char *const *argv, int64_t ns)
{
    weft_process *process;
    struct weft_process_status status;
    int err = weft_process_spawn(&process, argv, NULL);
    if (err) {
        printf("%s: cannot be run (%d)\n", argv[0], err);
        return err;
    }
    err = weft_process_wait(process, &status, weft_after(ns));
    if (err == -ETIMEDOUT) {
        weft_process_kill(process, SIGTERM);
        err = weft_process_wait(process, &status, WEFT_FOREVER);
    }
    if (!err) {
        tell(argv[0], weft_process_pid(process), &status);
    }
    weft_process_close(process);
    return err;
}

static void *await_term(void *arg)
{
    struct weft_signal_info info;
    int err = weft_signal_wait(arg, &info, WEFT_FOREVER);
    if (!err) {
        printf("signal %d from process %d\n", info.signal, info.pid);
    }
    return (void *)(long)err;
}

static void *app(void *arg)
{
    static const int signals[] = {SIGTERM, SIGINT};
    weft_signal_set *set;
    weft_fiber waiter;
    void *failed = arg;
    /* Include signals that were ignored when this program started. A server would respect that and
     * leave them out, which is the default. */
    int err = weft_signal_open(&set, signals, 2, &(struct weft_signal_opts){.force = true});
    if (err || weft_spawn(&waiter, await_term, set, NULL) != 0) {
        return set;
    }
    err = run((const char *[]){"true", NULL}, INT64_C(60000000000));
    err = err ? err : run((const char *[]){"sleep", "100", NULL}, 20000000);
    int missing = run((const char *[]){"/no/such/program", NULL}, 0);
    /* A child that sends the signal this program waits for. */
    err = err ? err
              : run((const char *[]){"sh", "-c", "kill -TERM $PPID", NULL}, INT64_C(60000000000));
    weft_join(waiter, &failed, WEFT_FOREVER);
    weft_signal_close(set);
    return err || missing != -ENOENT || failed ? (void *)1 : NULL;
}

int main(void)
{
    void *failed = NULL;
    int err = weft_run(&failed, app, NULL, NULL, WEFT_FOREVER);
    return err == 0 && !failed ? 0 : 1;
}
