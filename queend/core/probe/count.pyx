# Test seams for instruction counts. Each `count_` method does one step for one request's messages. The input is made
# before, so that callgrind counts only the step.

cdef extern from *:
    """
    #ifdef __OPTIMIZE__
    #define CORE_OPTIMIZED 1
    #else
    #define CORE_OPTIMIZED 0
    #endif
    """
    int CORE_OPTIMIZED

def probe_optimized():
    """Was the core compiled as it is shipped, not quickly?"""
    return CORE_OPTIMIZED == 1

cdef class ProbeCount:
    """A request: head (bytes up to the blank line), Content-Type lines, query, body. Methods return how many messages.
    """
    cdef ProbeRoom room
    cdef bytes head
    cdef bytes headers
    cdef PushReq request
    cdef Buf out
    cdef PushBatch batch
    cdef Args args
    cdef BodyPack pack
    cdef Queue queue              # of all partitions; has no groups
    cdef Partition* partitions
    cdef int n_partitions
    cdef PopMessage* messages

    def __cinit__(self, bytes head, bytes kind, bytes query, bytes body):
        head_open()
        self.head = head
        self.headers = probe_type(kind)
        self.room = ProbeRoom(body, query=query)
        self.room.limits.max_items = 100000
        buf_init(&self.out)
        arena_open(&self.batch.arena, NULL)
        statements_open()
        memset(&self.args, 0, sizeof(Args))
        memset(&self.pack, 0, sizeof(BodyPack))

    def __dealloc__(self):
        arena_close(&self.batch.arena)
        args_free(&self.args)
        batchrow_pack_free(&self.pack)
        buf_free(&self.out)
        free(self.partitions)
        free(self.messages)

    def count_head(self):
        cdef HeadLimits limits
        cdef Head h
        limits.max_head = 32768
        limits.max_target = 8192
        limits.max_body = 1 << 30
        return head_parse(<const char*>self.head, <size_t>len(self.head), &limits, &h)

    def count_json(self):
        cdef Json j
        json_open(&j, self.room.body, JSON_DEPTH)
        json_padded(&j)
        return json_skip(&j, NULL) and json_end(&j)

    def count_push(self):
        if not pushitems_read(slice_of(self.headers, len(self.headers)), self.room.query, self.room.body,
                              &self.room.tools, &self.request):
            raise probe_refusal(&self.room.tools.error)
        return self.request.n

    def stored(self):
        """As if the items had been stored, and popped again: partitions by name, ids and offsets set."""
        cdef int i
        cdef PushItem* it
        cdef PopMessage* m
        known = {}
        free(self.partitions)
        free(self.messages)
        arena_close(&self.batch.arena)
        memset(&self.batch, 0, sizeof(PushBatch))
        arena_open(&self.batch.arena, NULL)
        self.partitions = <Partition*>calloc(self.request.n, sizeof(Partition))
        self.messages = <PopMessage*>calloc(self.request.n, sizeof(PopMessage))
        for i in range(self.request.n):
            it = &self.request.items[i]
            k = known.setdefault(probe_bytes(it.part), len(known))
            it.partition = &self.partitions[k]
            self.partitions[k].id = k + 1
            self.partitions[k].queue = &self.queue
            memset(self.partitions[k].uuid, b'a', 36)
            it.partition_uuid = self.partitions[k].uuid
            it.offset = i
            m = &self.messages[i]
            memcpy(m.id, it.id, 16)
            memcpy(m.record_id, it.id, 16)
            m.payload = it.payload
            m.lease = slice_of(self.partitions[k].uuid, 36)
            m.queue = it.queue
            m.partition = it.part
            m.partition_uuid = slice_of(self.partitions[0].uuid, 36)
            m.group = m.lease
            m.offset = i

    def count_batch(self):
        cdef PushArgs* a = <PushArgs*>self.args.at
        cdef int i
        cdef PushItem* it
        cdef Partition* p
        for i in range(self.request.n):
            it = &self.request.items[i]
            p = it.partition
            if p.gathering == NULL:
                p.gathering = batch_partition(&self.batch, p)
            batch_place(&self.batch, p.gathering, it)
        if not rows_cut(&self.batch):
            raise MemoryError()
        args_begin(&self.args, &STATEMENTS[<int>STMT_PUSH])
        rows_encode(&self.batch, &a.rows, &a.known, &a.hint, &self.pack)
        return self.batch.n_items

    def count_reply(self):
        buf_clear(&self.out)
        pushreply_put(&self.out, &self.request, self.request.n)
        return self.request.n

    def count_pop(self):
        cdef int i
        cdef PopMessage m
        memset(&m, 0, sizeof(m))
        buf_clear(&self.out)
        for i in range(self.request.n):
            # like the engine: messages are written one after the other with the same PopMessage, which keeps common
            # fields
            m.payload = self.messages[i].payload
            memcpy(m.id, self.messages[i].id, 16)
            memcpy(m.record_id, self.messages[i].record_id, 16)
            m.lease = self.messages[i].lease
            m.queue = self.messages[i].queue
            m.partition = self.messages[i].partition
            m.partition_uuid = self.messages[i].partition_uuid
            m.group = self.messages[i].group
            m.offset = i
            popreply_add(&self.out, &m, i == 0)
        return self.request.n
