"""Buffers: the remote-free list of a worker cache, its end, and the references to a storage. Read by mutations.py."""

STRUCTURES["bufs"] = {
    "client": "io/client_bufs.c",
    "sources": ["src/buf/buf.c", "src/buf/block.c", "src/buf/worker_cache.c", "src/buf/shared_pool.c", "src/lock/lock.c"],
    "files": ["src/buf/remote_free.h", "src/buf/worker_cache.c", "src/buf/buf.c"],
}

_of("bufs", "src/buf/remote_free.h",
    "memory_order_release, /* pairs: weft__remote_free_drain, weft__remote_free_close */",
    "memory_order_relaxed,",
    "a remote free does not release what its user wrote")
_of("bufs", "src/buf/remote_free.h",
    "return atomic_exchange_explicit(&remote_free->newest, NULL, memory_order_acquire); /* pairs: weft__remote_free_push */",
    "return atomic_exchange_explicit(&remote_free->newest, NULL, memory_order_relaxed);",
    "the owner collects remote frees without acquire")
_of("bufs", "src/buf/remote_free.h",
    "return atomic_exchange_explicit(&remote_free->newest, WEFT__REMOTE_FREE_CLOSED, memory_order_acquire); /* pairs: weft__remote_free_push */",
    "return atomic_exchange_explicit(&remote_free->newest, WEFT__REMOTE_FREE_CLOSED, memory_order_relaxed);",
    "the closer frees without acquire")
_of("bufs", "src/buf/remote_free.h",
    "        if (newest == WEFT__REMOTE_FREE_CLOSED) {\n            return false;\n        }\n",
    "",
    "a push overwrites the closed mark of a cache")
_of("bufs", "src/buf/remote_free.h",
    "        block->weft_next = newest;\n",
    "        block->weft_next = NULL;\n",
    "a push drops the existing list")
_of("bufs", "src/buf/remote_free.h",
    "return atomic_exchange_explicit(&remote_free->newest, NULL, memory_order_acquire); /* pairs: weft__remote_free_push */",
    "weft_buf *all = atomic_load_explicit(&remote_free->newest, memory_order_acquire);\n"
    "    atomic_store_explicit(&remote_free->newest, NULL, memory_order_relaxed);\n"
    "    return all;",
    "collecting takes two steps")
_of("bufs", "src/buf/worker_cache.c",
    "    weft_buf *block = weft__remote_free_close(&cache->remote_free);\n",
    "    weft_buf *block = weft__remote_free_drain(&cache->remote_free);\n",
    "a cache that ends stays open")
_of("bufs", "src/buf/worker_cache.c",
    "        atomic_fetch_add_explicit(&foreign->to_system, 1, memory_order_relaxed);\n        weft__block_destroy(block);",
    "        atomic_fetch_add_explicit(&foreign->to_system, 1, memory_order_relaxed);",
    "buffers that are not handed over are not freed")
_of("bufs", "src/buf/block.c",
    "} else if (cache == weft__buf_cache_self()) {",
    "} else if (cache) {",
    "a thread that frees touches the owner's lists")
_of("bufs", "src/buf/buf.c",
    "return atomic_load_explicit(&store->refs, memory_order_acquire) == 1;",
    "return atomic_load_explicit(&store->refs, memory_order_relaxed) == 1;",
    "the only holder has not seen the others release")
_of("bufs", "src/buf/buf.c",
    "atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acq_rel) != 1) { /* pairs: is_exclusive */",
    "atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acquire) != 1) {",
    "a holder does not release what it read")
_of("bufs", "src/buf/buf.c",
    "atomic_fetch_sub_explicit(&store->refs, 1, memory_order_acq_rel) != 1) { /* pairs: is_exclusive */",
    "atomic_fetch_sub_explicit(&store->refs, 1, memory_order_release) != 1) {",
    "the last holder does not acquire what the others did")
_of("bufs", "src/buf/buf.c",
    "    atomic_fetch_add_explicit(&buf->weft_store->refs, 1, memory_order_relaxed);\n",
    "",
    "a slice is not counted")
