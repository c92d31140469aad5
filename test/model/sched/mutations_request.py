"""The request of a sampler, src/backtrace/sample_request.h. Read by mutations.py."""

STRUCTURES["request"] = {
    "client": "sched/client_request.c",
    "sources": [],
    "files": ["src/backtrace/sample_request.h"],
}

_of("request", "src/backtrace/sample_request.h",
    "    if (weft__request_step(request) == WEFT__REQUEST_COPYING) {\n        return false;\n    }\n",
    "",
    "requests while another thread still copies")
_of("request", "src/backtrace/sample_request.h",
    "memory_order_release); /* pairs: weft__request_step */",
    "memory_order_relaxed);",
    "the reply does not release what was written")
_of("request", "src/backtrace/sample_request.h",
    "        memory_order_acquire, /* pairs: post */\n",
    "        memory_order_relaxed,\n",
    "the thread does not acquire the request")
_of("request", "src/backtrace/sample_request.h",
    "weft__request_word(tid, WEFT__REQUEST_POSTED),\n                          memory_order_release);",
    "weft__request_word(tid, WEFT__REQUEST_POSTED),\n                          memory_order_relaxed);",
    "the request does not release")
_of("request", "src/backtrace/sample_request.h",
    "atomic_fetch_add_explicit(&request->doorbell, 1, memory_order_release);",
    "atomic_fetch_add_explicit(&request->doorbell, 1, memory_order_relaxed);",
    "the doorbell may be seen before the reply")
_of("request", "src/backtrace/sample_request.h",
    "    weft__futex_wake(&request->doorbell, 1);\n",
    "",
    "the sampler is not woken")
_of("request", "src/backtrace/sample_request.h",
    "(step != WEFT__REQUEST_POSTED && step != WEFT__REQUEST_COPYING)",
    "(step != WEFT__REQUEST_POSTED)",
    "the sampler does not wait for a copy that has begun")
_of("request", "src/backtrace/sample_request.h",
    "(step != WEFT__REQUEST_POSTED && step != WEFT__REQUEST_COPYING)",
    "(step != WEFT__REQUEST_COPYING)",
    "the sampler does not wait at all")
