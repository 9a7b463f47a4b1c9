# A log read as CloudEvents: an array of the records of all entries, in order. Marks and errors of entries appear only
# in the other formats.

cdef void read_events(ReadCall* c, Buf* b) noexcept nogil:
    cdef ReadRecord r
    cdef PopMessage m
    cdef ReadEntry* e
    cdef int i
    memset(&m, 0, sizeof(m))
    buf_byte(b, b'[')
    for i in range(c.n):
        e = &c.entries[i]
        m.queue = e.queue
        m.partition = e.partition
        while readentry_next(c, e, b.len, &r):
            m.payload = r.payload
            m.extras = r.extras
            m.extras.text = r.text
            memcpy(m.record_id, r.id, 16)
            m.created_us = r.created_us
            m.offset = r.offset
            event_put(b, &m, c.records == 1)
    buf_byte(b, b']')
