# When what was deleted may be freed. Requests and what comes of them hold pointers to queues, partitions, groups and
# cursors; what is deleted can no longer be found, and is freed when nobody who may have found it before is left.
#
# Who looks something up is pinned first, to the era that it reads, and until it holds nothing any more: requests of hot
# routes (job_open to request_close), what gives back or takes back after them, a scan. What comes of a pinned one has
# the pin of the same era, and gets it before the other one's goes. The era moves on (find/grave) while nobody is pinned
# to another than the current one, and after every worker has come to an end with what it did at the move before. From
# the burial to the second move after it no pin of before it lasts: whichever of the two words it counts in, at one of
# the two moves that word had to be 0. So it does not matter that the era may have moved between reading it and
# counting.
#
# Order: the count rises before the look-up, which takes catalog.lock; the burial takes it for writing, and who moves
# the era after that. So each rise that a look-up before the burial needs is seen. A pin that another worker counts on
# is counted under the book's lock, and the words are read under it: they are never seen between two workers. A fall is
# a release, reading an acquire.

cdef SharedInt64 era_now
cdef SharedInt64 era_blocked  # 1: the era cannot move on, because requests are pinned to another one (find/grave)
cdef int64_t[2] era_outside   # pins of threads that are no worker: of those that hold the interpreter's lock

cdef inline int pin_take(int64_t* pins) noexcept nogil:
    # The caller holds nothing yet. 1 or 2: the word it counts in, and one.
    cdef int at = <int>(era_now & 1)
    pin_up(&pins[at])
    return at + 1

cdef inline int pin_share(int64_t* pins, int pin) noexcept nogil:
    # For what goes on holding what the owner of `pin` holds. Of another worker's: the book is locked.
    pin_up(&pins[pin - 1])
    return pin

cdef inline void pin_drop(int64_t* pins, int pin) noexcept nogil:
    # 0: there is none.
    if pin:
        pin_down(&pins[pin - 1])

cdef inline int pin_renew(int64_t* pins, int pin) noexcept nogil:
    # The caller holds nothing now, and is about to look up all it needs.
    if pin == 1 + <int>(era_now & 1):
        return pin
    pin_drop(pins, pin)
    return pin_take(pins)
