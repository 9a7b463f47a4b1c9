# What the tests of the number of push streams drive: the test decides what time it is and what is stored.

cdef class SpreadProbe:
    """One Spread. window_us 0: another number after every batch."""
    cdef Spread s

    def __cinit__(self, int most=4, int64_t window_us=250000):
        spread_open(&self.s, most, window_us)

    def done(self, int64_t now_us, int items, bint crowded=True, int64_t took_us=1 << 40):
        return spread_done(&self.s, now_us, took_us, items, crowded)

    @property
    def active(self):
        return self.s.active

    @property
    def trying(self):
        return self.s.other != 0
