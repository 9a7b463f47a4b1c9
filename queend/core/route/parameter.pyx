# The parameters of a query, all taken at one go: a table names those that are wanted and says of which kind each is.
# In: a query. Out: a value for each row of the table; or a refusal.

cdef void param_is(Param* p, const char* name, int kind, int of, int low, int high) noexcept nogil:
    # A row of a table.
    p.name = slice_lit(name)
    p.kind = kind
    p.of = of
    p.low = low
    p.high = high

cdef bint params_read(Slice query, const Param* table, int n, int of, ParamValue* values, Arena* a,
                      ApiError* e) noexcept nogil:
    # of: whose rows are known here. Of a name that is given twice the first value counts.
    cdef Slice name, value
    cdef int i
    memset(values, 0, n * sizeof(ParamValue))
    while query_next(&query, &name, &value):
        i = 0
        while i < n and not (table[i].of & of and slice_eq(table[i].name, name)):
            i += 1
        if i == n:
            if name.n and (strict or a.picky) and param_stray(name, table, n, of, a.picky, e):
                return False
        elif not values[i].found:
            values[i].found = 1 if percent_decode(value, a, True, &values[i].text) else -1
            if values[i].found < 0:
                values[i].text = slice_of(NULL, 0)
            if not param_take(&table[i], &values[i], e):
                return False
    return True

cdef bint param_stray(Slice name, const Param* table, int n, int of, bint picky, ApiError* e) noexcept nogil:
    # A name that no row has. True: it was refused.
    cdef Slice meant = slice_of(NULL, 0)
    cdef int i
    for i in range(n):
        if table[i].of & of and name_near(name, table[i].name):
            meant = table[i].name
            break
    if meant.p == NULL and not picky:
        return False
    refuse_stray(e, name, meant, NULL, 0)
    return True

cdef bint param_name(const Param* p, const ParamValue* v, ApiError* e) noexcept nogil:
    # May it be a name? Of a row of text, where that is asked only sometimes.
    if v.found >= 0 and v.text.n <= NAME_MAX:
        return True
    e.status = 400
    snprintf(e.text, 239, b"%s must be valid text of at most 255 bytes", p.name.p)
    return False

cdef bint param_take(const Param* p, ParamValue* v, ApiError* e) noexcept nogil:
    # The value by its kind. Empty is as good as absent.
    cdef const char* text = p.name.p
    cdef size_t i
    if p.kind == PARAM_NAME:
        return param_name(p, v, e)
    if p.kind == PARAM_TEXT or v.found > 0 and v.text.n == 0:
        return True
    if p.kind == PARAM_TRUTH:
        v.yes = slice_is(v.text, b"true") or slice_is(v.text, b"1")
        if v.yes or not strict or slice_is(v.text, b"false") or slice_is(v.text, b"0"):
            return True
        e.status = 400
        snprintf(e.text, 239, b"%s must be true or false", text)
        return False
    v.given = query_int(v.text, &v.number)
    if not strict:
        return True
    for i in range(v.text.n):
        v.given = v.given and 48 <= <unsigned char>v.text.p[i] <= 57
    if v.given and p.low <= v.number <= p.high:
        return True
    e.status = 400
    snprintf(e.text, 239, b"%s must be a whole number from %d to %d", text, p.low, p.high)
    return False
