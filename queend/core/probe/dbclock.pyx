# Test seams for the database's clock.

def probe_dbclock(list heard, int64_t at):
    """What the database's clock shows at the monotonic moment `at` after hearing (clock, sent, got), and when it last
    went back."""
    cdef int64_t least = dbclock.least
    cdef int64_t back_at = dbclock.back_at
    clock_db_open()
    try:
        for clock, sent, got in heard:
            clock_db_sample(clock, sent, got)
        return clock_db_at(at), dbclock.back_at
    finally:
        dbclock.least = least
        dbclock.back_at = back_at
