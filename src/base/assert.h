/* Assertions: a caller's bug, or ours, ends the program with a readable line. They stay on in
 * release builds. */
#ifndef WEFT_BASE_ASSERT_H
#define WEFT_BASE_ASSERT_H

/* "weft: <message> (file:line)", then abort. */
void weft__panic(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, cold, format(printf, 3, 4)));

/* A rule for callers: `message` says what they did. */
#define WEFT__REQUIRE(cond, ...)                                                                   \
    (__builtin_expect(!!(cond), 1) ? (void)0 : weft__panic(__FILE__, __LINE__, __VA_ARGS__))

/* A rule for ourselves. */
#define WEFT__ASSERT(cond) WEFT__REQUIRE(cond, "broken invariant: %s", #cond)

/* For a function whose result is the only trace of an event: who ignores it does not compile. */
#define WEFT__MUST_USE __attribute__((warn_unused_result))

#ifndef WEFT_DEBUG
#define WEFT_DEBUG 0
#endif
/* A check that costs too much for release builds. */
#define WEFT__DEBUG_ASSERT(cond) (WEFT_DEBUG ? WEFT__ASSERT(cond) : (void)0)

#endif
