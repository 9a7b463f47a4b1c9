# The table of job kinds: what is done with a job by those who need not know its kind. A new type is a row here.

cdef void kinds_open() noexcept nogil:
    memset(job_kinds, 0, sizeof(job_kinds))
    kind_is(OP_PUSH, push_ask, push_barred, push_retry, push_refuse)
    job_kinds[OP_PUSH].hurries = True
    kind_is(OP_POP, pop_ask, pop_barred, pop_retry, pop_refuse)
    job_kinds[OP_POP].until = pop_until
    job_kinds[OP_POP].expire = pop_expire
    kind_is(OP_ACK, ack_ask, NULL, ack_retry, job_refuse)
    job_kinds[OP_ACK].reloads = True
    kind_is(OP_TRANSACTION, tx_ask, tx_barred, tx_retry, tx_refuse)
    job_kinds[OP_TRANSACTION].reloads = True
    kind_is(OP_LEASE, NULL, NULL, NULL, job_refuse)
    kind_is(OP_OTHER, cycle_ask, cycle_barred, cycle_retry, cycle_refuse)
    job_kinds[OP_OTHER].reloads = True

cdef void kind_is(int op, void (*ask)(Engine* e, Job* j) noexcept nogil,
                  bint (*barred)(Round* r, Job* j) noexcept nogil,
                  void (*retry)(Engine* e, Job* j) noexcept nogil,
                  void (*refuse)(Job* j, int status, const char* text) noexcept nogil) noexcept nogil:
    cdef JobKind* t = &job_kinds[op]
    t.ask = ask
    t.barred = barred
    t.retry = retry
    t.refuse = refuse
