# Gives memory that the allocator keeps (base/memory) back to the system after a worker's requests in hand have fallen.
# A worker looks every TRIM_LOOK_MS. It trims once it had TRIM_LEAST or more, and less than a quarter of that since the
# last look. It gives back the end of its own heap on its thread, and the pages inside all heaps on a thread of the
# pool.

cdef enum:
    TRIM_LOOK_MS = 10000
    TRIM_LEAST = 16 << 20     # bytes in hand

cdef void trim_look(Worker* w) noexcept nogil:
    # Trims if it is due. Called with each tick.
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
    # Runs on a thread of the pool.
    memory_give_top()
    memory_give_rest()

cdef void trim_done(uv_work_t* work, int status) noexcept nogil:
    (<Worker*>work.data).trim.running = False
