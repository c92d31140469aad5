/* Weft: fibers, actors and asynchronous I/O on a few threads. The umbrella header.
 *
 * Conventions that hold for every call:
 *  - Functions that return int return 0 (or a count) on success and a negative errno on failure.
 *    weft_strerror describes it; weft_last_error says which option a create call refused.
 *  - Objects are returned through a pointer argument that is written only on success.
 *  - In an option struct a zero field means the documented default, also where the field is a
 *    deadline or a time; a NULL struct means all defaults.
 *  - A call that can wait takes one absolute deadline in nanoseconds of CLOCK_MONOTONIC as its last
 *    argument, such as weft_after(WEFT_MS(5)). WEFT_FOREVER never ends the wait. 0 only tries: what
 *    cannot be done at once returns -ETIMEDOUT, and a cancel or an interrupt that is pending stays
 *    pending for the next wait. Any other time that has passed is a wait that ends at once.
 *  - A name may have any length and is copied, unless its contract says "borrowed". Objects keep
 *    the whole name; a fiber keeps 15 bytes of it, a thread 15 bytes (the kernel's limit), a
 *    statistics record as much as fits, cut between UTF-8 characters.
 *  - A caller's bug stops the program with a message; bad data from outside returns an error.
 */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <weft/actor.h>
#include <weft/actor_io.h>
#include <weft/actor_out.h>
#include <weft/base.h>
#include <weft/blocking.h>
#include <weft/buf.h>
#include <weft/chan.h>
#include <weft/connpool.h>
#include <weft/dispatcher.h>
#include <weft/fiber.h>
#include <weft/file.h>
#include <weft/frame.h>
#include <weft/funcpool.h>
#include <weft/future.h>
#include <weft/hook.h>
#include <weft/http.h>
#include <weft/http_parse.h>
#include <weft/inspect.h>
#include <weft/io.h>
#include <weft/loop.h>
#include <weft/net.h>
#include <weft/perf.h>
#include <weft/pool.h>
#include <weft/process.h>
#include <weft/remote.h>
#include <weft/scope.h>
#include <weft/server.h>
#include <weft/stream.h>
#include <weft/supervisor.h>
#include <weft/sync.h>
#include <weft/timer.h>

#endif
