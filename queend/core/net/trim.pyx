# Memory that the allocator keeps (base/memory) is given back to the system when a worker's requests in hand have
# fallen. A worker looks every TRIM_LOOK_MS: once it had TRIM_LEAST or more, and had less than a quarter of that since
# the last look, it trims. The end of its own heap is given back on its thread, the pages inside all heaps on one of the
# pool.

cdef enum:
    TRIM_LOOK_MS = 10000
    TRIM_LEAST = 16 << 20     # bytes in hand

cdef void trim_look(Worker* w) noexcept nogil:
    # Called with each tick.
    cdef Trim* t = &w.trim
    cdef uint64_t now = uv_now(&w.loop)
    cdef int64_t peak = w.held_peak
    if now - t.looked < TRIM_LOOK_MS or t.running:
        return
    t.looked = now
    w.held_peak = w.counters.held
    if peak >= TRIM_LEAST and peak > t.grown:
        t.grown = peak
    if t.grown == 0 or peak >= t.grown // 4:
        return
    t.grown = 0
    memory_give_top()
    w.counters.trimmed += 1
    t.work.data = w
    t.running = uv_queue_work(&w.loop, &t.work, trim_run, trim_done) == 0

cdef void trim_run(uv_work_t* work) noexcept nogil:
    # On a thread of the pool.
    memory_give_top()
    memory_give_rest()

cdef void trim_done(uv_work_t* work, int status) noexcept nogil:
    (<Worker*>work.data).trim.running = False
