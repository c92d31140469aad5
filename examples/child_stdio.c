/* A child process as a filter: one fiber writes to its standard input, another reads its standard
 * output. */
/* not under: qemu */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static void *feed(void *arg)
{
    int in = *(int *)arg;
    static const char *const lines[] = {"plum\n", "apple\n", "pear\n"};
    for (int i = 0; i < 3; i++) {
        if (weft_write_all(in, lines[i], strlen(lines[i]), NULL, WEFT_FOREVER) != 0) {
            break; /* -EPIPE: the child has exited */
        }
    }
    weft_close(in); /* end of file for the child */
    return NULL;
}

static void *app(void *arg)
{
    weft_process *process;
    weft_reader lines;
    const char *line;
    ssize_t len;
    weft_fiber feeder;
    int in, out, count = 0;
    const char *const argv[] = {"sort", NULL};
    const struct weft_process_opts opts = {.in = WEFT_STDIO_PIPE, .out = WEFT_STDIO_PIPE};
    if (weft_process_spawn(&process, argv, &opts) != 0) {
        return (void *)1;
    }
    in = weft_process_pipe(process, 0);
    out = weft_process_pipe(process, 1);
    weft_spawn(&feeder, feed, &in, NULL);

    weft_reader_init(&lines, out, NULL);
    while ((len = weft_reader_read_line(&lines, &line, WEFT_FOREVER)) >= 0) {
        printf("%d: %.*s\n", ++count, (int)len, line);
    }
    weft_reader_deinit(&lines);

    weft_join(feeder, NULL, WEFT_FOREVER);
    weft_close(out);
    weft_process_wait(process, NULL, WEFT_FOREVER);
    weft_process_close(process);
    return count == 3 ? arg : (void *)1;
}

int main(void)
{
    void *failed = NULL;
    return weft_run(&failed, app, NULL, NULL, WEFT_FOREVER) == 0 && !failed ? 0 : 1;
}
