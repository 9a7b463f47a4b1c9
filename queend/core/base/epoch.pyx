# Epochs: when the memory of deleted queues, partitions, groups and cursors may be freed. In: pins. Out: epoch_now,
# which find/reclaim raises. A deleted entry can no longer be found; it is freed after all requests that may have found
# it before.
# Owns the pins of threads other than workers; a worker owns its own. Locks: catalog.lock and book.lock, see "order"
# below.

# ---- pins ------------------------------------------------------------------------------------------------------------
# A request is pinned to the current epoch before its first look-up, and until it holds no pointer to such an entry.
# Pinned are requests of hot routes (job_open to request_shed), releases and take-backs after them, and scans. Work
# that follows from a pinned request takes a pin of the same epoch, before the request's pin is dropped.

# ---- moves -----------------------------------------------------------------------------------------------------------
# The epoch moves on if all pins are of the current epoch, and every worker has finished what it did at the move before.
# After the second move that follows a retirement (find/retire), all pins from before it are gone. One of the two words
# of pins had to be 0 at one of these moves. So the epoch may move between reading it and counting the pin.

# ---- order -----------------------------------------------------------------------------------------------------------
# The count rises before the look-up, which takes catalog.lock. The retirement takes it for writing, the move takes it
# later. So the move sees each rise that a look-up before the retirement needs. Pins of another worker are counted, and
# the words read, under book.lock: none is missed between two workers. A fall is a release, a read an acquire.

cdef SharedInt64 epoch_now
cdef SharedInt64 epoch_blocked  # 1: the epoch cannot move on, because requests are pinned to another one (find/reclaim)
cdef int64_t[2] epoch_outside  # pins of threads other than workers, which hold the interpreter's lock

cdef inline int epoch_pin(int64_t* pins) noexcept nogil:
    # Pins the caller to the current epoch. Returns the pin, 1 or 2: its word and one. Requires that the caller holds no
    # pointer yet.
    cdef int at = <int>(epoch_now & 1)
    pin_up(&pins[at])
    return at + 1

cdef inline int epoch_share(int64_t* pins, int pin) noexcept nogil:
    # Adds a pin for an object that keeps pointers of the owner of `pin`. Requires book.lock if the pin is another
    # worker's.
    pin_up(&pins[pin - 1])
    return pin

cdef inline void epoch_unpin(int64_t* pins, int pin) noexcept nogil:
    # Drops a pin. 0: does nothing.
    if pin:
        pin_down(&pins[pin - 1])

cdef inline int epoch_renew(int64_t* pins, int pin) noexcept nogil:
    # Moves a pin to the current epoch. Requires that the caller holds no pointer, and looks up all it needs afterwards.
    if pin == 1 + <int>(epoch_now & 1):
        return pin
    epoch_unpin(pins, pin)
    return epoch_pin(pins)
