/* Loads, runs and unloads a plugin on a thread that then ends. The program does not link Weft
 * itself. argv[1] is the plugin. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

static void *use(void *arg)
{
    const char *path = arg;
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
        fprintf(stderr, "%s\n", dlerror());
        return NULL;
    }
    int (*run)(void) = (int (*)(void))dlsym(plugin, "plugin_run");
    int answer = run ? run() : 0;
    dlclose(plugin);
    return answer == 42 ? arg : NULL; /* after this, Weft's data for this thread is freed */
}

int main(int argc, char **argv)
{
    for (int time = 1; time <= 2; time++) {
        pthread_t thread;
        void *right = NULL;
        if (argc < 2 || pthread_create(&thread, NULL, use, argv[1]) != 0 ||
            pthread_join(thread, &right) != 0 || !right) {
            fprintf(stderr, "the plugin failed at its use number %d\n", time);
            return 1;
        }
    }
    return 0;
}
