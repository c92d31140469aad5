/* Included first in every file that is built to run under qemu's user mode (the preset `aarch64`).
 *
 * On 64-bit ARM a sequentially consistent store is STLR, such a load is LDAR, and the processor
 * keeps the two in order. qemu 7.2 on x86_64 translates them to plain moves, with a fence before
 * the store and after the load but none between: a thread may read before others see its store.
 * Every "publish, then check for a sleeping thread" sequence then occasionally loses a wake-up. An
 * exchange is a locked instruction, which is a fence; so such stores are exchanges here.
 *
 * test/base/seq_cst.c fails without this.
 */
#ifndef WEFT_TEST_EMULATED_H
#define WEFT_TEST_EMULATED_H

#include <stdatomic.h>

#undef atomic_store
#undef atomic_store_explicit

#define atomic_store(object, value) ((void)atomic_exchange(object, value))
#define atomic_store_explicit(object, value, order)                                                \
    __extension__({                                                                                \
        __auto_type emulated_object = (object);                                                    \
        __typeof__((void)0, *emulated_object) emulated_value = (value);                            \
        if ((order) == memory_order_seq_cst) {                                                     \
            (void)atomic_exchange_explicit(emulated_object, emulated_value, memory_order_seq_cst); \
        } else {                                                                                   \
            __atomic_store(emulated_object, &emulated_value, (order));                             \
        }                                                                                          \
    })

#endif
