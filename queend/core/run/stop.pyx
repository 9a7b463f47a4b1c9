# The end of an engine. A graceful stop answers waiting pops and lets statements in flight finish; closing frees slots
# and memory.

cdef void engine_stop(Worker* w) noexcept nogil:
    # Begins a graceful stop: answers parked pops and takes no new work; statements in flight go on.
    cdef Engine* e = engine_of(w)
    cdef PopJob* wake = NULL
    e.stopping = True
    catalog_book_lock()
    book_wake_queues(True, &wake)
    book_wake_all_name_waiters(&wake)
    catalog_book_unlock(w, wake)
    feeds_look(e)
    engine_drain(w)

cdef bint engine_idle(Worker* w) noexcept nogil:
    cdef Engine* e = engine_of(w)
    cdef int i
    if (e.queued_jobs or e.releases != NULL or e.release_limit.in_flight or e.takebacks != NULL
            or e.takeback_limit.in_flight):
        return False
    if w is boss and spill_works():
        return False
    for i in range(streams_all):
        if streams[i].worker is w and (streams[i].flying != NULL or streams[i].again != NULL
                                       or streams[i].gather != NULL):
            return False
    return True

cdef void engine_close(Worker* w) noexcept nogil:
    # Closes the engine asynchronously: the loop ends when slots and timer are closed.
    cdef Engine* e = engine_of(w)
    if e == NULL or e.closing:
        return
    e.closing = 2 + (peers_close(engine_on_timer_closed) if e.worker is boss else 0)
    uv_timer_stop(&e.timer)
    uv_close(<uv_handle_t*>&e.timer, engine_on_timer_closed)
    slotpool_close(e.slots, engine_on_slots_closed, e)

cdef void engine_on_timer_closed(uv_handle_t* h) noexcept nogil:
    cdef Engine* e = <Engine*>h.data
    e.worker.counters.live_handles -= 1
    engine_closing(e)

cdef void engine_on_slots_closed(void* ctx) noexcept nogil:
    engine_closing(<Engine*>ctx)

cdef void engine_closing(Engine* e) noexcept nogil:
    e.closing -= 1
    if e.closing:
        return
    e.worker.engine = NULL
    releases_close(e)
    takebacks_close(e)
    heap_free(&e.deadlines)
    heap_free(&e.beats)
    table_free(&e.ack_rows)
    args_free(&e.args)
    bodypack_free(&e.pack)
    free(e.discover.found)
    free(e.rates.asks)
    free(e)
