/* statx, with a fallback where a seccomp filter denies it. */
#ifndef WEFT_IO_STATX_H
#define WEFT_IO_STATX_H

struct statx;

/* As statx(2): 0, or -1 and errno. Older container filters do not know statx and return EPERM or
 * ENOSYS: then fstatat is used, which fills in the basic fields and ignores AT_STATX_ flags.
 */
int weft__statx(int dir, const char *path, int flags, unsigned mask, struct statx *out);

#endif
