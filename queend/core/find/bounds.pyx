# Names that may not be made: the operator's bound on queues, partitions of a queue or groups of a queue is reached. In:
# what a round of look-ups was refused. Out: 409 to the jobs that asked for it, and to no other. The database counts
# (sql/function/names.sql); it is asked only when a name is made. Records of the failover buffer were accepted before:
# they are bound by nothing. Owner: the round, which is its worker's.

cdef enum:
    BOUND_SAY_US = 60000000   # between two log lines

cdef struct Refused:
    Refused* next             # of the same key
    Slice queue
    Slice name                # partition or group
    int bound

cdef SharedInt64 bound_said_us      # when the last line was logged, by any worker

cdef inline uint64_t refused_key(bint group, Slice queue, Slice name) noexcept nogil:
    return slice_hash(queue, slice_hash(name, hash_seed + group)) | 1

cdef void refused_add(Round* r, int bound, Slice queue, Slice name) noexcept nogil:
    # Notes a refused name. If memory ran out, its jobs try again, and give up after their last try.
    cdef uint64_t key = refused_key(bound == BOUND_GROUPS, queue, name)
    cdef Refused* one = <Refused*>arena_alloc(&r.arena, sizeof(Refused))
    if one == NULL:
        return
    one.queue = queue
    one.name = name
    one.bound = bound
    one.next = <Refused*>table_get(&r.refused, key)
    table_put(&r.refused, key, one)

cdef int refused_find(Round* r, bint group, Slice queue, Slice name) noexcept nogil:
    # Returns the bound for which the name was refused; 0 if it was not.
    cdef Refused* one = <Refused*>table_get(&r.refused, refused_key(group, queue, name))
    while one != NULL:
        if (one.bound == BOUND_GROUPS) == group and slice_eq(one.queue, queue) and slice_eq(one.name, name):
            return one.bound
        one = one.next
    return 0

cdef inline bint refused_is(Round* r, Job* job, bint group, Slice queue, Slice name) noexcept nogil:
    job.bound = refused_find(r, group, queue, name)
    job.bound_at = queue
    return job.bound != 0

cdef void refused_answer(Engine* e, Job* job) noexcept nogil:
    global bound_said_us
    cdef char[1200] text
    cdef int64_t now = clock_mono_us()
    if job.bound == BOUND_QUEUES:
        snprintf(text, sizeof(text), b"There are as many queues as QUEEND_MAX_QUEUES allows: %d", e.settings.max_queues)
    else:
        snprintf(text, sizeof(text), b"Queue %.*s has as many %s allows: %d", <int>min(job.bound_at.n, <size_t>1024),
                 job.bound_at.p,
                 b"partitions as QUEEND_MAX_PARTITIONS" if job.bound == BOUND_PARTITIONS
             else b"consumer groups as QUEEND_MAX_GROUPS",
                 e.settings.max_partitions if job.bound == BOUND_PARTITIONS else e.settings.max_groups)
    if bound_said_us == 0 or now - bound_said_us > BOUND_SAY_US:
        bound_said_us = now
        log_line(b"warn", b"bound_reached", text)
    job.bound = 0
    job.kind.refuse(job, 409, text)
