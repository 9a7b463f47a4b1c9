# Take-back: claims that were acknowledged at once, for a client that left before their records were sent. In: what such
# a claim consumed. Out: cursors that are ready again. Owner: the worker. Locks: book.lock.
#
# The claim itself stays one update of the cursor. Only a client that leaves costs a statement (queend.take_back). It
# moves the cursor back only if the cursor still stands where the claim left it. If another consumer went on behind the
# claim, the records are not delivered again. If the client is known to have left when the claim is made, the book
# counts the cursor as leased meanwhile (TAKE_BACK_US).

cdef enum:
    TAKEBACK_TRIES = 20       # then the records stay consumed

cdef struct TakebackCall:
    Call base
    Takeback* list

cdef void takeback_want(Engine* e, PopJob* j, int i) noexcept nogil:
    # Queues the take-back of what claim i of j consumed.
    cdef Takeback* x = <Takeback*>malloc(sizeof(Takeback))
    if x == NULL:
        return                # the records count as delivered
    x.pin = pin_share(e.worker.pins, j.job.r.pin)
    x.cursor = j.cursors[i]
    x.span = j.spans[i]
    x.tries = 0
    x.next = e.takebacks
    e.takebacks = x

cdef void takebacks_close(Engine* e) noexcept nogil:
    cdef Takeback* x
    while e.takebacks != NULL:
        x = e.takebacks
        e.takebacks = x.next
        free(x)

cdef void takebacks_drain(Engine* e) noexcept nogil:
    cdef TakebackCall* call
    cdef SpanArgs* a = <SpanArgs*>e.args.at
    cdef Takeback* x
    call = <TakebackCall*>call_open(e, sizeof(TakebackCall), STMT_TAKE_BACK, &e.takeback_limit, takebacks_done)
    if call == NULL:
        return
    call.list = e.takebacks
    e.takebacks = NULL
    x = call.list
    while x != NULL:
        pgarray_int4(&a.part, x.cursor.partition.id)
        pgarray_int4(&a.group, x.cursor.group.id)
        pgarray_int8(&a.first, x.span.first)
        pgarray_int8(&a.stop, x.span.stop)
        x = x.next
    call_send(&call.base)

cdef void takebacks_done(Call* c, PGresult* res, int outcome) noexcept nogil:
    # Makes the cursors ready, taken back or not: the next claim tells. Repeats a call that failed: a second time does
    # no harm.
    cdef Engine* e = c.engine
    cdef Takeback* x = (<TakebackCall*>c).list
    cdef Takeback* following
    cdef PopJob* wake = NULL
    uv_mutex_lock(&book.lock)
    while x != NULL:
        following = x.next
        if outcome != SLOT_OK and x.tries < TAKEBACK_TRIES and not e.closing:
            x.tries += outcome < SLOT_UNSENT
            x.next = e.takebacks
            e.takebacks = x
            e.pause_until = c.ended_us + TROUBLE_PAUSE_US
            x = following
            continue
        x.cursor.next_offset = x.span.first
        if x.cursor.state == CURSOR_BUSY:
            x.cursor.again |= AGAIN_NEWS
        elif x.cursor.state != CURSOR_READY:
            cursor_move(x.cursor, CURSOR_READY, 0)
            book_wake_cursor(x.cursor, &wake)
        tell_stored(x.cursor.partition.id)
        pin_drop(e.worker.pins, x.pin)
        free(x)
        x = following
    uv_mutex_unlock(&book.lock)
    popjobs_wake(e.worker, wake)
