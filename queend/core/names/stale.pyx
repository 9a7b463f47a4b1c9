# The catalog is out of date: whoever finds that out says so here, and one reload for the whole process follows
# (run/reload).

cdef void engine_reload(Worker* w) noexcept nogil:
    # The catalog is out of date. One reload at a time in the process; everyone hears of its end.
    engine_of(w).want_reload = True

cdef bint catalog_reload_allowed() noexcept nogil:
    # For names nobody knows: not more often than every 200 ms.
    return catalog.version < 0 or clock_mono_us() - reload_at > 200000

cdef uv_mutex_t reload_lock

cdef SharedFlag reload_running    # set under reload_lock
cdef const Verdict* reload_said   # by the server, of the last one; NULL: it was done

cdef SharedInt64 reload_at        # monotonic, when the last one ended

cdef int64_t reload_sent          # when the last one began

cdef SharedInt64 reload_of        # when the last one that was answered began
