/* Hooks: blocking calls of unmodified libraries become waits of the calling fiber.
 *
 * The hooks are in libweft-hook.so, which a program is linked with (pkg-config weft-hook) or which
 * is loaded first with LD_PRELOAD. It interposes read, connect, poll, sleep and many more functions
 * of the C library; docs/hooks.md lists them, describes their behaviour, and names the limits. The
 * functions below are part of libweft: they may be used without libweft-hook.so and have no effect
 * then.
 *
 * A call is hooked if a fiber makes it and hooks are enabled for the fiber and for the thread that
 * runs it; both are enabled initially. Everywhere else the call is the C library's. A fiber is
 * bound to its worker from its first hooked call on, because code that was compiled elsewhere may
 * keep the address of errno, or of another thread-local, across the call. Spawn fibers that will
 * make such calls with `.hooked` (weft/fiber.h): they are bound from the start, to the worker that
 * has the fewest bound fibers.
 *
 * Needs the shared libweft. If a program that is linked with libweft.a loads the hooks, a message
 * on stderr says so and no call is hooked.
 */
#ifndef WEFT_HOOK_H
#define WEFT_HOOK_H

#include <weft/fiber.h>

WEFT_BEGIN_DECLS

/* Report whether libweft-hook.so is loaded and works with this libweft.
 *
 * Returns true if it is.
 * Context: any thread; does not wait. */
WEFT_API bool weft_hook_is_loaded(void);

/* Report whether a call by the caller would be hooked now.
 *
 * Returns true if it would.
 * Context: any thread; does not wait. */
WEFT_API bool weft_hook_is_active(void);

/* Enable or disable hooks for the calling fiber.
 *
 * Returns the previous setting; false outside a fiber, where nothing changes.
 * Context: any thread; does not wait. */
WEFT_API bool weft_hook_enable(bool on);

/* Enable or disable hooks for the calling thread: for all fibers, while they run on it.
 *
 * Returns the previous setting.
 * Context: any thread; does not wait. */
WEFT_API bool weft_hook_enable_thread(bool on);

/* Limit the time of a hooked connect, for the whole process; after that time connect fails with
 * ETIMEDOUT.
 *
 * ns: 0, the default, for no limit but the kernel's; negative to leave the limit unchanged.
 * Returns the previous limit.
 * Context: any thread; does not wait. */
WEFT_API int64_t weft_hook_connect_timeout(int64_t ns);

WEFT_END_DECLS
#endif
