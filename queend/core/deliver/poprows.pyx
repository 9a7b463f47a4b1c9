# The answer to the statement of pops. In: rows of queend.pop, which name their candidate. Out: where each candidate's
# cursor stands now, to the book; each request's answer, or its next try. Locks: book.lock.

cdef void popcall_rows(PopCall* call, PGresult* res) noexcept nogil:
    # Finds where each candidate's rows begin. Claimed rows come first, in the order asked; the other rows follow them.
    cdef int row, i
    for i in range(call.n_cursors):
        call.rows[i] = -1
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, POP_ORD)
        if 0 <= i < call.n_cursors and call.rows[i] < 0:
            call.rows[i] = row

cdef void popcall_book(PopCall* call, PGresult* res, int64_t now) noexcept nogil:
    # Applies the rows to the cursors of all candidates, under one lock.
    cdef int row, i
    cdef int64_t took
    cdef int64_t wall = dbclock_now()
    cdef uint8_t again
    cdef Cursor* c
    cdef PopJob* wake = NULL
    cdef Job* job
    cdef PopJob* j
    uv_mutex_lock(&book.lock)
    for row in range(PQntuples(res)):
        i = pg_int4(res, row, POP_ORD)
        if i < 0 or i >= call.n_cursors:
            continue
        c = call.cursors[i]
        again = c.again       # keeps `again`: the head wakes other cursors, and is no news for this one
        book_found(c.partition, pg_int8(res, row, POP_HEAD), &wake)
        c.again = again
        if pg_int2(res, row, POP_STATUS) == POP_ROW_CLAIMED:
            c.next_offset = pg_int8(res, row, POP_FIRST) + pg_int4(res, row, POP_TAKE)
        else:
            book_made(c)
    job = call.base.jobs.first
    while job != NULL:
        j = <PopJob*>job
        took = 0
        for i in range(j.n_cursors):
            took += popcall_cursor(call, j, i, res, now, wall, &wake)
        rate_settle(j, took, &wake)
        job = job.next
    uv_mutex_unlock(&book.lock)
    popjobs_wake(call.base.engine.worker, wake)

cdef int64_t popcall_cursor(PopCall* call, PopJob* j, int i, PGresult* res, int64_t now, int64_t wall,
                            PopJob** wake) noexcept nogil:
    # Applies the row of candidate i to its cursor. Returns the number of messages delivered. Requires book.lock.
    cdef Cursor* c = j.cursors[i]
    cdef int row = call.rows[j.first_cursor + i]
    cdef int status = pg_int2(res, row, POP_STATUS) if row >= 0 else POP_ROW_NOTHING
    cdef int64_t first, until
    cdef int64_t took = 0
    if j.req.auto_ack:
        j.spans[i].stop = 0
    if row >= 0 and not pg_null(res, row, POP_BURIED):
        call.base.engine.worker.counters.dead_lettered += pg_int4(res, row, POP_BURIED)
    if status == POP_ROW_CLAIMED:
        first = pg_int8(res, row, POP_FIRST)
        took = c.next_offset - first
        cursor_claimed(c, j, j.gone, c.next_offset, now)
        if j.req.auto_ack:
            pop_consumed(j, i, first, c.next_offset)
        else:
            unacked_rows(c, j, res, row)
    elif status == POP_ROW_LEASED and c.again & AGAIN_FREE:
        cursor_move(c, CURSOR_READY, 0)       # the lease that was in the way has expired meanwhile
    elif status == POP_ROW_LEASED or status == POP_ROW_DELAYED:
        until = pg_int8_or(res, row, POP_UNTIL, 0)
        if status == POP_ROW_DELAYED:
            c.wakes_at = until
        cursor_move(c, CURSOR_LEASED if status == POP_ROW_LEASED else CURSOR_DELAYED, now + max(until - wall, 20000))
    elif status == POP_ROW_UNNEEDED:
        cursor_move(c, CURSOR_READY, 0)
    else:
        if row >= 0:
            c.next_offset = pg_int8(res, row, POP_HEAD)
        cursor_rest(c)
    if c.state == CURSOR_READY:
        book_wake_cursor(c, wake)
    return took

cdef void popcall_answer(Engine* e, PopJob* j, PGresult* res, const int* rows) noexcept nogil:
    # Answers one request from its rows, or tries it again. rows: where the rows of each candidate begin, -1 if it has
    # none.
    cdef int n = PQntuples(res)
    cdef int i, row, status
    cdef int first_row = -1
    cdef int stop_row = -1
    cdef int claimed = 0
    cdef int seen = POP_ROW_NOTHING
    for i in range(j.first_cursor, j.first_cursor + j.n_cursors):
        row = rows[i]
        status = pg_int2(res, row, POP_STATUS) if row >= 0 else POP_ROW_NOTHING
        if status == POP_ROW_CLAIMED:
            if first_row < 0:
                first_row = row
            claimed += 1
            while row < n and pg_int4(res, row, POP_ORD) == i:
                row += 1
            stop_row = row
        elif status > seen and status < POP_ROW_UNNEEDED:
            seen = status
    if first_row >= 0:
        if j.gone:
            pop_give_back(e, j)
            pop_forget(j)
            return
        delivery_rows(e.worker, j, res, first_row, stop_row, claimed)
        return
    if j.only != NULL:
        j.why = (WHY_LEASE_HELD if seen == POP_ROW_LEASED
                 else WHY_WINDOW if seen == POP_ROW_DELAYED and j.queue.window_us else WHY_NOTHING)
    if j.gone:
        pop_forget(j)
    elif j.only != NULL:
        pop_after_empty(e, j)
    else:
        # the hint was stale: tries the next candidates, until none are left
        job_queue(&j.job, &e.woken)
