/* Assertions: a bug of the caller, or of the runtime, ends the program with a readable message.
 * They stay enabled in release builds. */
#ifndef WEFT_BASE_ASSERT_H
#define WEFT_BASE_ASSERT_H

/* Prints "weft: <message> (file:line)", then aborts. */
void weft__panic(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, cold, format(printf, 3, 4)));

/* A requirement on callers: the message says what the caller did. */
#define WEFT__REQUIRE(cond, ...)                                                                   \
    (__builtin_expect(!!(cond), 1) ? (void)0 : weft__panic(__FILE__, __LINE__, __VA_ARGS__))

/* An internal invariant. */
#define WEFT__ASSERT(cond) WEFT__REQUIRE(cond, "broken invariant: %s", #cond)

/* For a function whose result is the only evidence of an event: ignoring it does not compile. */
#define WEFT__MUST_USE __attribute__((warn_unused_result))

#ifndef WEFT_DEBUG
#define WEFT_DEBUG 0
#endif
/* A check that is too expensive for release builds. */
#define WEFT__DEBUG_ASSERT(cond) (WEFT_DEBUG ? WEFT__ASSERT(cond) : (void)0)

#endif
