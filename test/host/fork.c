/* Forks a process that has supervisors while other threads inspect them. */
/* not under: qemu asan */
#include <sys/wait.h>
#include <unistd.h>

#include "pool/forks.h"
#include "supervisor/children.h"

static void *look_on(void *arg)
{
    weft_pid supervisor = *(weft_pid *)arg;
    char text[512];
    while (weft_supervisor_format(supervisor, text, sizeof text) != -ESRCH) {
    }
    return NULL;
}

TEST(forked_child_has_no_supervisors)
{
    weft_host *host = make_host();
    weft_pid pid = start(host, &(struct weft_supervisor_opts){.children = abc, .count = 3});
    pthread_t looker;
    CHECK_EQ(pthread_create(&looker, NULL, look_on, &pid), 0);
    for (int i = 0; i < 50; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            char text[64];
            _exit(weft_supervisor_children(pid, NULL, 0) != -ESRCH ||
                  weft_supervisor_format(pid, text, sizeof text) != -ESRCH);
        }
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK_EQ(status, 0);
    }
    CHECK_EQ(weft_supervisor_children(pid, NULL, 0), 3);
    CHECK_EQ(stop(pid), 0);
    CHECK_EQ(pthread_join(looker, NULL), 0);
    end_host(host);
}
