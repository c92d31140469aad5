/* C11 atomics for the explorer: base/atomic.h includes this header under WEFT_EXPLORE.
 *
 * `_Atomic(T)` is a plain T that always holds the newest value; the explorer keeps, by address, the
 * history that weak loads read from. Each call passes the bits of the value, the order, and the
 * source position for the trace. */
#ifndef WEFT_TEST_MODEL_EXPLORE_ATOMIC_H
#define WEFT_TEST_MODEL_EXPLORE_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

#define _Atomic(T) __typeof__(T)

typedef enum {
    memory_order_relaxed,
    memory_order_acquire,
    memory_order_release,
    memory_order_acq_rel,
    memory_order_seq_cst,
} memory_order;

enum x_rmw { X_EXCHANGE, X_ADD, X_SUB, X_OR, X_AND };

struct x_site {
    const char *expression, *file;
    int line;
};

void x_init(void *at, int bytes, uint64_t value, const struct x_site *site);
uint64_t x_load(const void *at, int bytes, memory_order order, const struct x_site *site);
void x_store(void *at, int bytes, uint64_t value, memory_order order, const struct x_site *site);
uint64_t x_modify(void *at, int bytes, enum x_rmw what, uint64_t operand, memory_order order,
                  const struct x_site *site);
bool x_compare_exchange(void *at, int bytes, uint64_t *expected, uint64_t desired, bool weak,
                        memory_order success, memory_order failure, const struct x_site *site);

#define X__SITE(p)                                                                                 \
    ({                                                                                             \
        static const struct x_site x__site = {#p, __FILE__, __LINE__};                             \
        &x__site;                                                                                  \
    })
/* The type of *p without const. */
#define X__TYPE(p) __typeof__(((void)0, *(p)))
#define X__BITS(p, value)                                                                          \
    ({                                                                                             \
        X__TYPE(p) x__value = (value);                                                             \
        uint64_t x__bits = 0;                                                                      \
        __builtin_memcpy(&x__bits, &x__value, sizeof *(p));                                        \
        x__bits;                                                                                   \
    })
#define X__VALUE(p, bits)                                                                          \
    ({                                                                                             \
        uint64_t x__from = (bits);                                                                 \
        X__TYPE(p) x__to;                                                                          \
        __builtin_memcpy(&x__to, &x__from, sizeof *(p));                                           \
        x__to;                                                                                     \
    })

#define atomic_init(p, value) x_init((p), sizeof *(p), X__BITS(p, value), X__SITE(p))
#define atomic_load_explicit(p, order) X__VALUE(p, x_load((p), sizeof *(p), (order), X__SITE(p)))
#define atomic_store_explicit(p, value, order)                                                     \
    x_store((p), sizeof *(p), X__BITS(p, value), (order), X__SITE(p))

#define X__MODIFY(p, what, value, order)                                                           \
    X__VALUE(p, x_modify((p), sizeof *(p), (what), X__BITS(p, value), (order), X__SITE(p)))
#define atomic_exchange_explicit(p, value, order) X__MODIFY(p, X_EXCHANGE, value, order)
#define atomic_fetch_add_explicit(p, value, order) X__MODIFY(p, X_ADD, value, order)
#define atomic_fetch_sub_explicit(p, value, order) X__MODIFY(p, X_SUB, value, order)
#define atomic_fetch_or_explicit(p, value, order) X__MODIFY(p, X_OR, value, order)
#define atomic_fetch_and_explicit(p, value, order) X__MODIFY(p, X_AND, value, order)

#define X__COMPARE(p, expected, desired, weak, success, failure)                                   \
    ({                                                                                             \
        X__TYPE(expected) *x__expected = (expected);                                               \
        uint64_t x__old = X__BITS(p, *x__expected);                                                \
        bool x__won = x_compare_exchange((p), sizeof *(p), &x__old, X__BITS(p, desired), weak,     \
                                         (success), (failure), X__SITE(p));                        \
        if (!x__won) {                                                                             \
            *x__expected = X__VALUE(p, x__old);                                                    \
        }                                                                                          \
        x__won;                                                                                    \
    })
#define atomic_compare_exchange_strong_explicit(p, expected, desired, success, failure)            \
    X__COMPARE(p, expected, desired, false, success, failure)
#define atomic_compare_exchange_weak_explicit(p, expected, desired, success, failure)              \
    X__COMPARE(p, expected, desired, true, success, failure)

#endif
