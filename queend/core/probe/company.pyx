# What the test of company drives: the test decides what time it is.

cdef class CompanyProbe:
    """Who waits for whom; times in microseconds."""
    cdef Company c

    def __cinit__(self):
        memset(&self.c, 0, sizeof(Company))

    def ended(self, int answered, int gathered, int64_t now_us):
        company_ended(&self.c, answered, gathered, now_us)

    def wait(self, int jobs, int64_t now_us):
        return company_wait(&self.c, jobs, now_us)
