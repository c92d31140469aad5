/* statx, also where a filter denies it. */
#ifndef WEFT_IO_STAT_H
#define WEFT_IO_STAT_H

struct statx;

/* As statx(2): 0, or -1 and errno. Older container filters know no statx and answer EPERM or
 * ENOSYS: then the older call is made, which gives the basic fields and knows no AT_STATX_ flags.
 */
int weft__statx(int dir, const char *path, int flags, unsigned mask, struct statx *out);

#endif
