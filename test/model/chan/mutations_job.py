"""Blocking jobs: the caller that leaves against the thread that ends. Read by mutations.py."""

STRUCTURES["job"] = {
    "client": "chan/client_job.c",
    "sources": ["src/blocking/job.c"] + WAIT,
    "files": ["src/blocking/job.c", "src/blocking/job.h"],
}

_of("job", "src/blocking/job.c",
    "memory_order_acq_rel) == 1;",
    "memory_order_relaxed) == 1;",
    "the last user does not wait for the other's accesses")
_of("job", "src/blocking/job.c",
    "    bool last = weft__job_unref(job);\n    if (node) {\n        weft__node_notify(node, 0, &ready);",
    "    bool last = false;\n    if (node) {\n        weft__node_notify(node, 0, &ready);\n        last = weft__job_unref(job);",
    "the thread drops its reference after the caller was notified, and never if the caller had left")
_of("job", "src/blocking/job.c",
    "    weft__source_unlock(&jobs->source);\n    weft__place_all(&ready, WEFT__FRONT);\n    if (last) {",
    "    weft__source_unlock(&jobs->source);\n    weft__place_all(&ready, WEFT__FRONT);\n    if (job->release) {",
    "the thread reads the job after its caller was notified")
_of("job", "src/blocking/job.c",
    "        job->state = WEFT__JOB_RUNNING;\n",
    "",
    "a job that was taken still looks queued")
_of("job", "src/blocking/job.c",
    "    if (job->state == WEFT__JOB_QUEUED) {\n        give_up_locked(jobs, job);\n        left = WEFT__JOB_NEVER_RAN;\n    }",
    "    if (job->state == WEFT__JOB_QUEUED) {\n        left = WEFT__JOB_NEVER_RAN;\n    }",
    "a job whose caller left stays queued")
_of("job", "src/blocking/job.c",
    "    job->node = NULL;\n    weft__source_unlock(&jobs->source);\n    return left;",
    "    weft__source_unlock(&jobs->source);\n    return left;",
    "a caller that leaves a running job leaves its node linked")
_of("job", "src/blocking/job.c",
    "left = job->ran ? WEFT__JOB_RAN : WEFT__JOB_NEVER_RAN;",
    "left = WEFT__JOB_NEVER_RAN;",
    "a result that came together with the deadline is lost")
_of("job", "src/blocking/job.c",
    "    if (node) {\n        weft__node_notify(node, 0, &ready);",
    "    if (!node) {\n        weft__node_notify(node, 0, &ready);",
    "the caller is not notified")
_of("job", "src/blocking/job.c",
    "atomic_fetch_add_explicit(&job->refs, 1, memory_order_relaxed);",
    "(void)0;",
    "the queue has no reference of its own")
_of("job", "src/blocking/job.c",
    "    job->node = ran ? NULL : &node;\n",
    "    job->node = NULL;\n",
    "a caller that cannot leave is not notified of the end")
_of("job", "src/blocking/job.c",
    "    weft__job_unref(job);\n    weft__wake_source_unref();\n",
    "    weft__job_unref(job);\n",
    "a job that never ran stays a wake source for ever")
