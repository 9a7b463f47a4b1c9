# The engine's place among the rooms: what a worker calls. Until the engine is there, every request is for the control
# plane but the two probes.

cdef bint engine_boot(Process* p) noexcept nogil:
    # Before the threads start: what all workers share.
    return True

cdef void engine_halt(Process* p) noexcept nogil:
    # After they have ended.
    pass

cdef bint engine_open(Worker* w) noexcept nogil:
    return True

cdef void engine_close(Worker* w) noexcept nogil:
    # Answers what is left with 503 and closes its handles; they may take turns of the loop to be gone.
    pass

cdef bint engine_idle(Worker* w) noexcept nogil:
    return True

cdef void engine_stop(Worker* w) noexcept nogil:
    pass

cdef void engine_drain(Worker* w) noexcept nogil:
    # Called when a turn of the loop ends, before answers leave; more than once is harmless.
    pass

cdef bint engine_ready() noexcept nogil:
    return True

cdef void engine_notify(Slice queue) noexcept nogil:
    # Any thread: wakes the parked pops of a queue.
    pass

cdef void engine_request(Worker* w, Request* r) noexcept nogil:
    if slice_is(r.path, b"/livez"):
        reply_simple(r, 200, b'{"status":"alive"}')
    elif slice_is(r.path, b"/readyz"):
        if engine_ready():
            reply_simple(r, 200, b'{"status":"ready"}')
        else:
            reply_simple(r, 503, b'{"status":"unavailable"}')
    else:
        bridge_submit(r)
