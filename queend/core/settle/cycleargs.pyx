# Parameters of a cycle's statements. In: the contents of its request. Out: the arguments of each statement.

cdef int32_t cycle_partition(CycleReq* q) noexcept nogil:
    # Returns the number of the cycle's partition; 0, which no partition has, if its text is malformed.
    cdef unsigned char[16] id
    cdef int32_t number = 0
    cdef int64_t n
    if whole_take(q.partition, &n):
        return <int32_t>n if n <= 0x7fffffff else 0
    if uuid_parse(q.partition, id, NULL) and code_id_read(catalog.seed, b'p', id, &number):
        return number
    return 0

cdef void cycle_look(SourcesArgs* a, CycleReq* q) noexcept nogil:
    if q.has_query:
        arg_bytes(&a.query, q.query, 16)
    arg_int4(&a.partition, cycle_partition(q))

cdef void cycle_make(Engine* e, SpacesArgs* a, CycleReq* q) noexcept nogil:
    # Writes the queues to create. If a queue is named several times, the first item with a namespace or task counts.
    cdef CycleSpace* s = q.spaces
    cdef Table seen
    cdef char[16] most
    table_init(&seen)
    while s != NULL:
        table_put(&seen, slice_hash(s.queue, hash_seed) | 1, s)
        s = s.next
    s = q.spaces
    while s != NULL:
        if table_get(&seen, slice_hash(s.queue, hash_seed) | 1) == s:
            pgarray_bytes(&a.queue, s.queue.p, s.queue.n)
            pgarray_bytes(&a.ns, s.ns.p, s.ns.n)
            pgarray_bytes(&a.task, s.task.p, s.task.n)
        s = s.next
    table_free(&seen)
    snprintf(most, sizeof(most), b"%d", e.settings.max_queues)
    arg_slice(&a.max_queues, slice_lit(most))

cdef void cycle_encode(CycleCall* call, CycleArgs* a) noexcept nogil:
    cdef CycleReq* q = &call.job.req
    arg_bytes(&a.query, q.query, 16)
    arg_int4(&a.partition, cycle_partition(q))
    cycle_state(a, q)
    batch_encode(&call.batch, &a.rows, NULL, NULL, &call.base.engine.pack)
    arg_slice(&a.group, q.group)
    if q.has_ack:
        arg_bytes(&a.record, q.ack, 16)
    if q.has_lease:
        arg_bytes(&a.lease, q.lease, 16)
    arg_int4(&a.count, q.count)
    arg_bool(&a.dead, q.dead)
    arg_slice(&a.error, q.error)
    arg_bool(&a.release, not q.keeps)
    arg_int4(&a.waited, <int32_t>min((clock_mono_us() - call.job.job.born_us) // 1000, <int64_t>0x7fffffff))

cdef void cycle_state(CycleArgs* a, CycleReq* q) noexcept nogil:
    cdef int i
    cdef CycleOp* op
    cdef double end
    cdef int64_t bits
    for i in range(q.n):
        op = &q.ops[i]
        if op.dropped:
            continue
        if op.value.p == NULL:
            pgarray_bytes(&a.unset, op.key.p, op.key.n)
            continue
        pgarray_bytes(&a.key, op.key.p, op.key.n)
        pgarray_bytes(&a.value, op.value.p, op.value.n)
        if op.has_end:
            end = op.end
            memcpy(&bits, &end, 8)
            pgarray_int8(&a.end, bits)
        else:
            pgarray_null(&a.end)
