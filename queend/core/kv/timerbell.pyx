# Wakes the service that fires timers (services/timers) if a timer is scheduled that is due before the service wakes by
# itself. In: due moments, from workers; when the service sleeps and until when. Out: an eventfd that is readable. Owns
# the bell; its lock is the last of all locks.

cdef struct TimerBell:
    uv_mutex_t lock
    int fd
    bint asleep
    int64_t until_us          # monotonic: when the service wakes by itself
    int64_t due_us            # monotonic: the earliest timer since the service looked last

cdef TimerBell timerbell

cdef bint timerbell_open() noexcept nogil:
    memset(&timerbell, 0, sizeof(TimerBell))
    timerbell.due_us = INT64_MAX
    timerbell.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
    if timerbell.fd < 0:
        return False
    uv_mutex_init(&timerbell.lock)
    return True

cdef void timerbell_close() noexcept nogil:
    close(timerbell.fd)
    uv_mutex_destroy(&timerbell.lock)

cdef void timerbell_ring(int64_t due_us) noexcept nogil:
    # Tells when a timer that was committed is due.
    cdef uint64_t one = 1
    uv_mutex_lock(&timerbell.lock)
    timerbell.due_us = min(timerbell.due_us, due_us)
    if timerbell.asleep and due_us < timerbell.until_us:
        timerbell.until_us = due_us
        if write(timerbell.fd, &one, sizeof(one)) < 0:
            pass                  # it is readable already
    uv_mutex_unlock(&timerbell.lock)

cdef void timerbell_begin() noexcept nogil:
    # The service looks into the table next: it finds what was rung before.
    cdef uint64_t count
    uv_mutex_lock(&timerbell.lock)
    if read(timerbell.fd, &count, sizeof(count)) < 0:
        pass
    timerbell.asleep = False
    timerbell.due_us = INT64_MAX
    uv_mutex_unlock(&timerbell.lock)

cdef int64_t timerbell_sleep(int64_t until_us) noexcept nogil:
    # The service sleeps. Returns until when: earlier if a timer was scheduled since it looked.
    cdef uint64_t count
    uv_mutex_lock(&timerbell.lock)
    if read(timerbell.fd, &count, sizeof(count)) < 0:
        pass
    timerbell.asleep = True
    timerbell.until_us = min(until_us, timerbell.due_us)
    until_us = timerbell.until_us
    uv_mutex_unlock(&timerbell.lock)
    return until_us
