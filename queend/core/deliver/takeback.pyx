# Claims that were acknowledged at once for a client that left before their records were on their way: taken back, so that
# somebody else gets them. In: what such a claim consumed. Out: cursors that are ready again.
#
# The claim itself stays one update of the cursor, as cheap as ever; only who leaves costs a statement (queend.take_back). It
# moves the cursor back only if it still stands where the claim left it: where somebody went on behind it, the records
# are not delivered again. So the book lets nobody go on until the answer is there, if the client is known to have left when
# the claim is made.

cdef struct TakebackCall:
    Engine* engine
    Takeback* list

cdef void takeback_want(Engine* e, PopJob* j, int i) noexcept nogil:
    # What its claim i consumed.
    cdef Takeback* x = <Takeback*>malloc(sizeof(Takeback))
    if x == NULL:
        return                # as if it had been delivered
    x.pin = pin_share(e.worker.pins, j.job.r.pin)
    x.cursor = j.cursors[i]
    x.span = j.spans[i]
    x.next = e.takebacks
    e.takebacks = x

cdef void takebacks_close(Engine* e) noexcept nogil:
    cdef Takeback* x
    while e.takebacks != NULL:
        x = e.takebacks
        e.takebacks = x.next
        free(x)

cdef void takebacks_drain(Engine* e) noexcept nogil:
    cdef Slot* slot
    cdef Params params
    cdef TakebackCall* call
    cdef Takeback* x
    if e.takebacks == NULL or e.takeback_flying:
        return
    slot = slotpool_take(e.slots)
    if slot == NULL:
        return
    call = <TakebackCall*>calloc(1, sizeof(TakebackCall))
    if call == NULL:
        return
    call.engine = e
    call.list = e.takebacks
    e.takebacks = NULL
    pgarray_begin(&e.ask_a, OID_INT4)
    pgarray_begin(&e.ask_b, OID_INT4)
    pgarray_begin(&e.c_first, OID_INT8)
    pgarray_begin(&e.c_base, OID_INT8)
    x = call.list
    while x != NULL:
        pgarray_int4(&e.ask_a, x.cursor.partition.id)
        pgarray_int4(&e.ask_b, x.cursor.group.id)
        pgarray_int8(&e.c_first, x.span.first)
        pgarray_int8(&e.c_base, x.span.stop)
        x = x.next
    params_begin(&params)
    params_array(&params, &e.ask_a)
    params_array(&params, &e.ask_b)
    params_array(&params, &e.c_first)
    params_array(&params, &e.c_base)
    e.takeback_flying = True
    if not slot_send(slot, STMT_TAKE_BACK, &params, takebacks_done, call, e.deadline_ms):
        takebacks_again(call)

cdef void takebacks_again(TakebackCall* call) noexcept nogil:
    # Beside those that came meanwhile.
    cdef Takeback* last = call.list
    while last.next != NULL:
        last = last.next
    last.next = call.engine.takebacks
    call.engine.takebacks = call.list
    call.engine.takeback_flying = False
    free(call)

cdef void takebacks_done(Slot* slot, void* ctx, PGresult* res, int outcome) noexcept nogil:
    # Taken back or not: asking again tells. Without an answer the same, once more: a second time does no harm.
    cdef TakebackCall* call = <TakebackCall*>ctx
    cdef Engine* e = call.engine
    cdef Takeback* x = call.list
    cdef Takeback* following
    cdef PopJob* wake = NULL
    if outcome == SLOT_LOST and not e.closing:
        takebacks_again(call)
        return
    e.takeback_flying = False
    uv_mutex_lock(&book.lock)
    while x != NULL:
        following = x.next
        x.cursor.next_offset = x.span.first
        if x.cursor.state == CURSOR_BUSY:
            x.cursor.again = 1
        elif x.cursor.state != CURSOR_READY:
            cursor_move(x.cursor, CURSOR_READY, 0)
            book_wake_cursor(x.cursor, &wake)
        pin_drop(e.worker.pins, x.pin)
        free(x)
        x = following
    uv_mutex_unlock(&book.lock)
    free(call)
    popjobs_wake(e.worker, wake)
