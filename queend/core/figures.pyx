# What was counted, as Python reads it: the counters of workers (base/counter) under the names of their fields, and
# queues with what each did. Nothing is locked for it: a figure may be a moment old.

cdef tuple OP_NAMES = ("push", "pop", "ack", "transaction", "lease", "other")

cdef list counters_seen(Process* p):
    # All of each worker.
    cdef int i
    return [counters_of(p.workers[i]) for i in range(p.n)]

cdef dict counters_of(Worker* w):
    cdef dict out = w.counters
    out["turns"] = w.turns
    return out

cdef dict worker_figures(dict counters):
    # Those that are numbers, and how many statements of each type may be in flight.
    out = {name.removeprefix("live_"): n for name, n in counters.items()
           if name not in ("op", "age", "statement", "silent_since", "connected")}
    out["push_streams"] = counters["op"][<int>OP_PUSH]["limit"]
    for i in (OP_POP, OP_ACK, OP_TRANSACTION, OP_LEASE):
        out[OP_NAMES[i] + "_limit"] = counters["op"][i]["limit"]
    return out

cdef dict job_figures(list ops):
    # Of one kind, of all workers.
    out = {name: sum([one[name] for one in ops]) for name in ("requests", "items", "errors", "calls", "latency_sum_us")}
    out["latency_us_buckets"] = buckets_sum([one["latency"] for one in ops])
    return out

cdef list buckets_sum(list all_):
    return [sum(column) for column in zip([0] * LATENCY_BUCKETS, *all_)]

cdef dict catalog_figures():
    # Of queues that were deleted as well, until they are given back.
    return {"queues": catalog.n_queues, "partitions": catalog.n_partitions, "groups": catalog.n_groups,
            "cursors": book.n_cursors}

cdef class QueuesSeen:
    # The queues there are. Nothing of them is freed as long as this lives.
    cdef TallySeen* seen
    cdef int n
    cdef int pin

    def __cinit__(self, bint running):
        self.pin = pin_take(era_outside)
        self.n = tally_list(&self.seen) if running else 0
        if self.n < 0:
            raise MemoryError()

    def __dealloc__(self):
        pin_drop(era_outside, self.pin)
        free(self.seen)

    cdef tuple named(self, int i):
        return self.seen[i].queue.id, slice_bytes(self.seen[i].queue.name).decode()
