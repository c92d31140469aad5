/* Opens names below a directory, never outside of it.
 *
 * The path has been decoded and normalised: it has no "..", no empty names and no zero byte. The
 * kernel resolves it beneath the directory's descriptor and refuses links (or, if links are
 * allowed, those that lead out), even if the tree changes meanwhile. Without openat2, the names are
 * opened one by one, none through a link.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "httpfile/files.h"

/* A pipe or a device must not block, and must not become the controlling terminal. */
#define HOW (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

static int open_beneath(int dir, const char *name, uint64_t resolve)
{
    struct open_how how = {
        .flags = HOW,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
    };
    long fd;
    int tries = 0;
    do { /* EAGAIN: a rename in the tree, after which the kernel cannot tell where we are */
        fd = syscall(SYS_openat2, dir, name, &how, sizeof how);
    } while (fd < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < 100)));
    return fd < 0 ? -errno : (int)fd;
}

static int open_step(int dir, const char *name, int flags)
{
    int fd;
    do {
        fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

static int open_by_steps(int dir, const char *name)
{
    char part[256];
    int at = dir;
    for (;;) {
        const char *slash = strchr(name, '/');
        size_t len = slash ? (size_t)(slash - name) : strlen(name);
        if (len >= sizeof part) {
            if (at != dir) {
                close(at);
            }
            return -ENAMETOOLONG;
        }
        memcpy(part, name, len);
        part[len] = '\0';
        int next = slash ? open_step(at, part, O_PATH | O_DIRECTORY) : open_step(at, part, HOW);
        if (at != dir) {
            close(at);
        }
        if (next < 0 || !slash) {
            return next;
        }
        at = next;
        name = slash + 1;
    }
}

bool weft__http_has_openat2(int dir)
{
    int fd = open_beneath(dir, ".", RESOLVE_NO_SYMLINKS);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static bool has_hidden_part(const char *name)
{
    return name[0] == '.' || strstr(name, "/.");
}

/* A file that a client may not read does not exist for the client. */
static int public_error(int err)
{
    switch (-err) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EIO:
        return err;
    default:
        return -ENOENT;
    }
}

int weft__http_open(const struct weft_http_files *files, const char *name, struct stat *st)
{
    if (!files->opts.dotfiles && has_hidden_part(name)) {
        return -ENOENT;
    }
    size_t len = strlen(name);
    char dir_name[4096];
    if (len >= sizeof dir_name) {
        return -ENOENT;
    }
    if (len && name[len - 1] == '/') { /* the same directory, for opening step by step */
        memcpy(dir_name, name, len - 1);
        dir_name[len - 1] = '\0';
        name = dir_name;
    }
    name = *name ? name : ".";
    int fd = files->openat2 ? open_beneath(files->dir, name,
                                           files->opts.follow_symlinks ? 0 : RESOLVE_NO_SYMLINKS)
                            : open_by_steps(files->dir, name);
    if (fd < 0) {
        return public_error(fd);
    }
    if (fstat(fd, st) != 0 || (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))) {
        close(fd);
        return -ENOENT;
    }
    return fd;
}
