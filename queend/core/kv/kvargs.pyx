# The parameters and rows of statements about keys and values. In: operations. Out: their waves and parameters; where
# each finds its rows. Pure, without locks.

cdef struct KvMark:
    int wave                  # of the last operation on a key
    bint wrote                # it wrote

cdef void kvargs_waves(Arena* a, KvOp** ops, int n) noexcept nogil:
    # Numbers the waves. Operations on one key run one after another; neighbouring reads of it share a wave. A list has
    # a wave for itself. Out of memory, each operation has one.
    cdef Table marks
    cdef KvMark* mark
    cdef KvOp* op
    cdef int i
    cdef int last = -1        # number of the last wave
    cdef int barrier = -1     # operations that follow run in later waves than this one
    table_init(&marks)
    for i in range(n):
        op = ops[i]
        mark = <KvMark*>table_get(&marks, kvbody_hash(op))
        if mark == NULL:
            mark = <KvMark*>arena_zero(a, sizeof(KvMark))
            if mark != NULL and table_put(&marks, kvbody_hash(op), mark):
                mark.wave = -1
            else:
                mark = NULL
        if mark == NULL or op.kind >= KV_LIST:
            op.wave = last + 1
            barrier = op.wave
        else:
            kvargs_mark(op, mark, barrier)
        last = max(last, op.wave)
    table_free(&marks)

cdef void kvargs_mark(KvOp* op, KvMark* mark, int barrier) noexcept nogil:
    cdef bint after = mark.wave > barrier and (mark.wrote or kvtype_writes(op))
    op.wave = max(mark.wave + after, barrier + 1)
    mark.wrote = kvtype_writes(op) or (mark.wrote and op.wave == mark.wave)
    mark.wave = op.wave

cdef void kvargs_encode(KvArgs* a, const KvOp* op) noexcept nogil:
    # Appends an operation to the arrays of kv_write, kv_bundle and transaction_bundle.
    pgarray_int4(&a.wave, op.wave)
    pgarray_int2(&a.op, op.kind)
    pgarray_bytes(&a.ns, op.ns.p, op.ns.n)
    pgarray_bytes(&a.key, op.key.p, op.key.n)
    kvargs_text(&a.value, op.value)
    if op.expect == KV_ANY:
        pgarray_null(&a.expect)
    else:
        pgarray_int8(&a.expect, op.expect)
    if op.ttl_us == KV_FOREVER:
        pgarray_null(&a.ttl_us)
    else:
        pgarray_int8(&a.ttl_us, op.ttl_us)
    kvargs_text(&a.delta, op.delta)
    kvargs_text(&a.low, op.low)
    kvargs_text(&a.high, op.high)

cdef void kvargs_text(PgArray* a, Slice text) noexcept nogil:
    if text.p != NULL:
        pgarray_bytes(a, text.p, text.n)
    else:
        pgarray_null(a)

cdef void kvargs_scatter(KvOp** ops, int n, PGresult* res, const int* columns, KvLost* lost) noexcept nogil:
    # Tells each operation its rows. lost: the required operation that undid all; its value stands in res.
    cdef int row
    lost.at = -1
    for row in range(PQntuples(res)):
        kvargs_scatter_row(ops, n, res, columns, row, lost)

cdef void kvargs_scatter_row(KvOp** ops, int n, PGresult* res, const int* columns, int row,
                             KvLost* lost) noexcept nogil:
    cdef int i = pg_int4(res, row, columns[KV_ROW_ORD])
    cdef int outcome = pg_int2(res, row, columns[KV_ROW_OUTCOME])
    if not 0 <= i < n:
        return
    if outcome >= KV_REQUIRED:
        lost.at = ops[i].at
        lost.outcome = outcome - KV_REQUIRED
        lost.version = pg_int8(res, row, columns[KV_ROW_VERSION])
        lost.value = pg_bytes(res, row, columns[KV_ROW_VALUE])
        return
    if ops[i].row < 0:
        ops[i].row = row
    ops[i].rows += 1
