"""Buffers: the returns of a home, its end, and the references of a storage. Read by mutations.py."""

STRUCTURES["bufs"] = {
    "client": "client_bufs.c",
    "sources": ["src/buf/buf.c", "src/buf/block.c", "src/buf/home.c", "src/buf/depot.c", "src/base/lock.c"],
    "files": ["src/buf/returns.h", "src/buf/home.c", "src/buf/buf.c"],
}

_of("bufs", "src/buf/returns.h",
    "memory_order_release, /* pairs: weft__returns_drain_local, weft__returns_close */",
    "memory_order_relaxed,",
    "a return does not release what its user wrote")
_of("bufs", "src/buf/returns.h",
    "return atomic_exchange_explicit(&returns->newest, NULL, memory_order_acquire); /* pairs: weft__returns_push_remote */",
    "return atomic_exchange_explicit(&returns->newest, NULL, memory_order_relaxed);",
    "the owner takes in without acquire")
_of("bufs", "src/buf/returns.h",
    "return atomic_exchange_explicit(&returns->newest, WEFT__RETURNS_CLOSED, memory_order_acquire); /* pairs: weft__returns_push_remote */",
    "return atomic_exchange_explicit(&returns->newest, WEFT__RETURNS_CLOSED, memory_order_relaxed);",
    "the closer frees without acquire")
_of("bufs", "src/buf/returns.h",
    "        if (newest == WEFT__RETURNS_CLOSED) {\n            return false;\n        }\n",
    "",
    "a push goes over the end of a home")
_of("bufs", "src/buf/returns.h",
    "        block->weft_next = newest;\n",
    "        block->weft_next = NULL;\n",
    "a push forgets what was there")
_of("bufs", "src/buf/returns.h",
    "return atomic_exchange_explicit(&returns->newest, NULL, memory_order_acquire); /* pairs: weft__returns_push_remote */",
    "weft_buf *all = atomic_load_explicit(&returns->newest, memory_order_acquire);\n"
    "    atomic_store_explicit(&returns->newest, NULL, memory_order_relaxed);\n"
    "    return all;",
    "taking in is two steps")
_of("bufs", "src/buf/home.c",
    "    weft_buf *block = weft__returns_close(&home->returns);\n",
    "    weft_buf *block = weft__returns_drain_local(&home->returns);\n",
    "a home that ends stays open")
_of("bufs", "src/buf/home.c",
    "        atomic_fetch_add_explicit(&foreign->strays, 1, memory_order_relaxed);\n        weft__block_destroy(block);",
    "        atomic_fetch_add_explicit(&foreign->strays, 1, memory_order_relaxed);",
    "what is not handed over is not freed")
_of("bufs", "src/buf/block.c",
    "} else if (home == weft__home_self()) {",
    "} else if (home) {",
    "whoever frees touches the owner's lists")
_of("bufs", "src/buf/buf.c",
    "return atomic_load_explicit(&store->refs, memory_order_acquire) == 1;",
    "return atomic_load_explicit(&store->refs, memory_order_relaxed) == 1;",
    "one who is alone has not seen the others go")
_of("bufs", "src/buf/buf.c",
    "atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acq_rel) != 1) { /* pairs: alone */",
    "atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acquire) != 1) {",
    "one who goes does not release what it read")
_of("bufs", "src/buf/buf.c",
    "atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acq_rel) != 1) { /* pairs: alone */",
    "atomic_fetch_sub_explicit(&store->refs, 1, memory_order_release) != 1) {",
    "the last does not acquire what the others did")
_of("bufs", "src/buf/buf.c",
    "    atomic_fetch_add_explicit(&buf->weft_store->refs, 1, memory_order_relaxed);\n",
    "",
    "a slice is not counted")
