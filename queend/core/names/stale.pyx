# The catalog is out of date. In: a notice from any place that finds that out. Out: one reload for the whole process
# (run/reload).

cdef void engine_reload(Worker* w) noexcept nogil:
    # Wants a reload of the catalog. The process runs one reload at a time; all workers hear of its end.
    engine_of(w).want_reload = True

cdef bint catalog_reload_allowed() noexcept nogil:
    # Returns True if an unknown name may cause a reload: at most one every 200 ms.
    return catalog.version == VERSION_NONE or clock_mono_us() - reload_at > 200000

cdef uv_mutex_t reload_lock

cdef SharedFlag reload_running    # set under reload_lock
cdef const Verdict* reload_said   # by the server, of the last reload; NULL: it succeeded

cdef SharedInt64 reload_at        # monotonic, when the last reload ended

cdef int64_t reload_sent          # when the last reload began

cdef SharedInt64 reload_of        # when the last reload that was answered began
