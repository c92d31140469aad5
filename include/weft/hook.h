/* Hooks: blocking calls of unmodified libraries become waits of the calling fiber.
 *
 * They are in libweft-hook.so, which a program is linked with (pkg-config weft-hook) or which is
 * loaded before others by LD_PRELOAD. It takes the place of read, connect, poll, sleep and many
 * more of the C library; docs/hooks.md lists them, says how each behaves, and what cannot be
 * helped. The calls below are libweft's: they may be used without it, and change nothing then.
 *
 * A call is hooked if a fiber makes it, and hooks are on for the fiber and for the thread that runs
 * it; both are from the start. Everywhere else it is the plain call. A fiber is bound to its worker
 * from its first hooked call on, because code that was compiled elsewhere may keep the address of
 * errno, or of another thread-local, over the call. Spawn fibers that will make such calls with
 * `.hooked` (weft/fiber.h): they are bound from the start, to the worker that has the fewest.
 *
 * Needs the shared libweft. A program that has libweft.a inside and loads the hooks is told so on
 * stderr, and gets plain calls.
 */
#ifndef WEFT_HOOK_H
#define WEFT_HOOK_H

#include <weft/fiber.h>

WEFT_BEGIN_DECLS

/* libweft-hook.so is there and works for this libweft. */
WEFT_API bool weft_hook_loaded(void);

/* Whether a call that is made here and now is hooked. */
WEFT_API bool weft_hook_active(void);

/* Switches hooks on or off for the calling fiber; what it was before. Outside a fiber: false, and
 * nothing changes. */
WEFT_API bool weft_hook_enable(bool on);
/* The same for the calling thread: for all fibers, as long as they run on it. */
WEFT_API bool weft_hook_enable_thread(bool on);

/* How long a hooked connect may take at most, for the whole process: then it fails with ETIMEDOUT.
 * 0, the default: as long as the kernel tries. What it was before; a negative time only asks. */
WEFT_API int64_t weft_hook_connect_timeout(int64_t ns);

/* For libweft-hook.so: it has been loaded. */
WEFT_API void weft_hook_attach(void);
/* For libweft-hook.so: as weft_hook_active, and binds the fiber. */
WEFT_API bool weft_hook_enter(void);
/* For libweft-hook.so: a fiber on its own stack, or a plain thread; not a callback or a step on a
 * worker. */
WEFT_API bool weft_hook_may_wait(void);

WEFT_END_DECLS
#endif
