# Statistics for Python. In: counters of workers (base/counter), the catalog, queues, spans. Out: dicts with the names
# of their fields. Counters are read without a lock, so a value may be slightly old. A snapshot of the queues pins the
# epoch. Locks: Spans.lock of each worker.

cdef tuple OP_NAMES = ("push", "pop", "ack", "transaction", "lease", "kv", "ephemeral", "other")

cdef list stats_counters(Process* p):
    # Returns the counters of each worker.
    cdef int i
    return [dict(p.workers[i].counters, turns=p.workers[i].turns) for i in range(p.n)]

cdef dict stats_worker(dict counters):
    # Returns the numeric counters, and how many statements of each type may be in flight.
    out = {name.removeprefix("live_"): n for name, n in counters.items()
           if name not in ("op", "age", "statement", "silent_since")}
    out["push_streams"] = counters["op"][<int>OP_PUSH]["limit"]
    for i in (OP_POP, OP_ACK, OP_TRANSACTION, OP_LEASE, OP_KV):
        out[OP_NAMES[i] + "_limit"] = counters["op"][i]["limit"]
    return out

cdef dict stats_job(list ops):
    # Returns the sums of one kind of request over all workers.
    out = {name: sum([one[name] for one in ops]) for name in ("requests", "items", "errors", "calls", "latency_sum_us")}
    out["latency_us_buckets"] = stats_buckets([one["latency"] for one in ops])
    return out

cdef list stats_buckets(list all_):
    return [sum(column) for column in zip([0] * LATENCY_BUCKETS, *all_)]

cdef dict stats_catalog():
    # Returns the catalog's sizes, including deleted queues that are not freed yet.
    return {"queues": atomic_get64(&catalog.n_queues), "partitions": atomic_get64(&catalog.n_partitions),
            "groups": atomic_get64(&catalog.n_groups), "cursors": book.n_cursors}

cdef class QueuesSeen:
    # A snapshot of the queues. The entries stay allocated while the snapshot lives.
    cdef TallySeen* seen
    cdef int n
    cdef int pin

    def __cinit__(self, bint running):
        self.pin = epoch_pin(epoch_outside)
        self.n = waiters_per_queue(&self.seen) if running else 0
        if self.n < 0:
            raise MemoryError()

    def __dealloc__(self):
        epoch_unpin(epoch_outside, self.pin)
        free(self.seen)

    cdef tuple named(self, int i):
        return self.seen[i].queue.id, slice_bytes(self.seen[i].queue.name).decode()

cdef list stats_tallies(bint running):
    cdef QueuesSeen all = QueuesSeen(running)
    cdef Tally* t
    cdef int i, k
    out = []
    for i in range(all.n):
        for k in range(tally_workers):
            t = &all.seen[i].queue.tally[k]
            if t.push_requests or t.pop_requests or t.ack_requests or t.transactions:
                out.append((*all.named(i), k, (
                    t.push_requests, t.push_messages, t.pop_requests, t.pop_messages, t.pop_empty, t.ack_requests,
                    t.ack_done, t.ack_failed, t.transactions, t.lag_us, t.lag_n, t.lag_most_us)))
                t.lag_most_us = 0
    return out

cdef list stats_parked(bint running):
    cdef QueuesSeen all = QueuesSeen(running)
    return [(*all.named(i), all.seen[i].parked) for i in range(all.n) if all.seen[i].parked]

cdef list stats_spans(Process* p):
    # Returns the gathered spans; each worker continues with its spare buffer.
    cdef Spans* s
    cdef Span* x
    cdef int i, k, n
    out = []
    for i in range(p.n):
        s = &p.workers[i].spans
        if s.every == 0:
            continue
        uv_mutex_lock(&s.lock)
        x = s.all
        n = s.n
        s.all = s.spare
        s.spare = x
        s.n = 0
        uv_mutex_unlock(&s.lock)
        for k in range(n):
            out.append((x[k].kind, x[k].trace[:32].decode(), x[k].parent[:16].decode(), x[k].start_us, x[k].end_us,
                        x[k].status, x[k].count, x[k].offset, (<bytes>x[k].queue).decode(errors="replace"),
                        (<bytes>x[k].partition).decode(errors="replace"),
                        (<bytes>x[k].group).decode(errors="replace")))
    return out
