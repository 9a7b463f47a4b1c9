# Parked pops that are to be tried again: each goes to its own worker. In: jobs taken out of the book. Out: the worker's
# list.

cdef void pop_move(PopJob* j, int state) noexcept nogil:
    j.state = state
    if state == POP_RESOLVING:
        job_move(&j.job, JOB_RESOLVING)
    elif state == POP_LEASING:
        job_move(&j.job, JOB_QUEUED)
    elif state == POP_FETCHING:
        job_move(&j.job, JOB_FLYING)
    elif state == POP_PARKED:
        job_move(&j.job, JOB_PARKED)
    elif state == POP_COMPLETED or state == POP_EMPTY or state == POP_FAILED:
        job_move(&j.job, JOB_DONE)

cdef void popjobs_wake(Worker* w, PopJob* wake) noexcept nogil:
    # Jobs taken out of the book by whoever found work: each goes to its own worker. Book not locked.
    cdef PopJob* following
    cdef PopJob* j = NULL
    # the list was built by pushing: turn it, so that the oldest waiter is tried first
    while wake != NULL:
        following = wake.wait_next
        wake.wait_next = j
        j = wake
        wake = following
    while j != NULL:
        following = j.wait_next
        j.wait_next = NULL
        if j.job.r.worker is w:
            pop_woken(w, &j.job.msg)
        else:
            j.job.msg.run = pop_woken
            worker_post(j.job.r.worker, &j.job.msg)
        j = following

cdef void popjobs_post(PopJob* wake) noexcept nogil:
    # The same for a thread that is no worker.
    cdef PopJob* following
    while wake != NULL:
        following = wake.wait_next
        wake.wait_next = NULL
        wake.job.msg.run = pop_woken
        worker_post(wake.job.r.worker, &wake.job.msg)
        wake = following

cdef void pop_woken(Worker* w, InboxMsg* m) noexcept nogil:
    cdef PopJob* j = <PopJob*>m
    heap_del(&engine_of(w).deadlines, &j.deadline)
    j.asked = False
    j.job.tries = 0
    pop_move(j, POP_LEASING)
    joblist_add(&engine_of(w).woken, &j.job)
