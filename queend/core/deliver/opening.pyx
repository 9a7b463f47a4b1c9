# Sealed payloads opened where an answer is written.

cdef inline void pop_open(Worker* w, Queue* q, PopMessage* m) noexcept nogil:
    # The payload as it was pushed, valid until the next one is opened by this worker.
    if m.extras.seal.n or q.sealed:
        pop_unseal(w, q.name, m)

cdef void pop_unseal(Worker* w, Slice queue, PopMessage* m) noexcept nogil:
    # What cannot be opened is delivered as it is stored: nothing is lost, and nobody else's messages wait for it.
    cdef int result = seal_reveal(&w.seal, queue, m.extras.seal, &m.payload)
    if result == SEAL_OPENED:
        w.counters.opened += 1
    elif result == SEAL_PLAIN or result == SEAL_REFUSED:
        w.counters.not_sealed += 1
    else:
        w.counters.left_sealed += 1
