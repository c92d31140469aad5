/* The three kinds of guard below a stack; stack.h says when which is used. */
#ifndef WEFT_CONTEXT_GUARD_H
#define WEFT_CONTEXT_GUARD_H

#include <sys/uio.h>

#include "context/stack.h"

/* The best kind that this kernel really supports; probed once. */
enum weft__guard weft__guard_best(void);

/* Guards [guard, bottom) with `way` or the next weaker kind that works; returns which. */
enum weft__guard weft__guard_place(enum weft__guard way, char *guard, char *bottom);

/* Installs markers on n ranges with one system call (a third less time than one by one). False:
 * this kernel cannot, or not all of them were installed; installing a marker twice does no harm. */
bool weft__guard_install_many(const struct iovec *guards, size_t n);

/* True unless the canary at a stack's bottom was overwritten. */
bool weft__guard_canary_intact(const char *bottom);

#endif
