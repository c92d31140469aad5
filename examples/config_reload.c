/* Reloads a configuration file when it changes. The directory is watched, not the file: editors and
 * deployment tools replace a file by renaming a new one over it, and a watch on the old file would
 * never see that. */
/* not under: qemu */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

enum { VERSIONS = 3 };

static char folder[] = "/tmp/weft-config-XXXXXX";
static int dir; /* the same folder */

/* Reads "version N". */
static int load(void)
{
    char text[64] = "";
    int version, fd = weft_open_at(dir, "app.conf", O_RDONLY, 0, 0, WEFT_FOREVER);
    if (fd < 0) {
        return fd;
    }
    ssize_t n = weft_read(fd, text, sizeof text - 1, WEFT_FOREVER);
    weft_close(fd);
    return n > 0 && sscanf(text, "version %d", &version) == 1 ? version : -EBADMSG;
}

/* Reloads until the last version is loaded. Returns that version. */
static int follow(weft_pathwatch *watch)
{
    struct weft_pathwatch_event event;
    int version = load();
    printf("started with version %d\n", version);
    while (version >= 0 && version < VERSIONS) {
        int err = weft_pathwatch_next(watch, &event, WEFT_FOREVER);
        if (err && err != -EOVERFLOW) { /* events were dropped: load to be safe */
            return err;
        }
        if (err || strcmp(event.name, "app.conf") == 0) {
            version = load();
            printf("loaded version %d\n", version);
        }
    }
    return version;
}

/* Stops watching. Nothing that happens later is reported; the last event says so. */
static int stop_watching(weft_pathwatch *watch, int id)
{
    struct weft_pathwatch_event event = {.mask = 0};
    int err = weft_pathwatch_remove(watch, id);
    while (!err && !(event.mask & IN_IGNORED)) {
        err = weft_pathwatch_next(watch, &event, WEFT_FOREVER);
    }
    return err;
}

struct watched {
    weft_pathwatch *watch;
    int id;
};

static int reload(void *arg)
{
    const struct watched *watched = arg;
    int version = follow(watched->watch);
    int err = stop_watching(watched->watch, watched->id);
    return version < 0 ? version : err;
}

/* --- deployment ------------------------------------------------------------------------- */

static int deploy(const char *name, int version)
{
    char text[64];
    int n = snprintf(text, sizeof text, "version %d\n", version);
    int fd = weft_open_at(dir, "app.tmp", O_CREAT | O_WRONLY, 0600, 0, WEFT_FOREVER);
    if (fd < 0) {
        return fd;
    }
    int err = weft_write_all(fd, text, (size_t)n, NULL, WEFT_FOREVER);
    weft_close(fd);
    return err ? err : weft_rename_at(dir, "app.tmp", dir, name, 0, WEFT_FOREVER);
}

static int deploy_all(struct watched *watched)
{
    weft_scope scope;
    weft_scope_open(&scope, NULL);
    int err = weft_scope_spawn(&scope, NULL, reload, watched, NULL);
    err = err ? err : deploy("other.conf", 1);
    for (int version = 2; !err && version <= VERSIONS; version++) {
        err = deploy("app.conf", version);
    }
    if (err) {
        weft_scope_cancel(&scope);
    }
    int failed = weft_scope_close(&scope, WEFT_FOREVER);
    return err ? err : failed;
}

static int watch_and_deploy(void)
{
    struct watched watched;
    int err = deploy("app.conf", 1);
    err = err ? err : weft_pathwatch_open(&watched.watch);
    if (err) {
        return err;
    }
    /* Watch first, load then: a change in between is loaded once more, never missed. */
    watched.id =
        weft_pathwatch_add(watched.watch, folder, IN_CLOSE_WRITE | IN_MOVED_TO, WEFT_FOREVER);
    err = watched.id < 0 ? watched.id : deploy_all(&watched);
    weft_pathwatch_close(watched.watch);
    return err;
}

static void *run(void *arg)
{
    (void)arg;
    dir = weft_open_at(AT_FDCWD, folder, O_RDONLY | O_DIRECTORY, 0, 0, WEFT_FOREVER);
    int err = dir < 0 ? dir : watch_and_deploy();
    weft_unlink_at(dir, "app.conf", 0, WEFT_FOREVER);
    weft_unlink_at(dir, "other.conf", 0, WEFT_FOREVER);
    weft_close(dir);
    weft_unlink_at(AT_FDCWD, folder, AT_REMOVEDIR, WEFT_FOREVER);
    return (void *)(intptr_t)err;
}

int main(void)
{
    void *failure = NULL;
    int err = mkdtemp(folder) ? weft_run(&failure, run, NULL, NULL, WEFT_FOREVER) : -EIO;
    err = err ? err : (int)(intptr_t)failure;
    if (err) {
        fprintf(stderr, "config_reload: %s\n", weft_strerror(err));
    }
    return err ? 1 : 0;
}
