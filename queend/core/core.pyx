# The data plane as Python sees it. In: settings; answers and grants of the control plane. Out: requests for the control
# plane, the health of the database, statistics. Owns the process and its settings; one Core per process. Guarded by the
# GIL; calls that wait release it.
import os
from threading import Lock

cdef bint core_exists = False      # the included rooms have one state per process

cdef tuple METHODS = ("", "GET", "POST", "PUT", "DELETE", "OPTIONS", "GET", "PATCH")     # by METHOD_*; HEAD becomes GET

cdef tuple DOUBTS = ((DOUBT_AWAY, "away"), (DOUBT_SILENT, "silent"), (DOUBT_DISK, "disk_full"),
                     (DOUBT_READ_ONLY, "read_only"), (DOUBT_REFUSED, "refused"),
                     (DOUBT_CROWDED, "crowded"), (DOUBT_BUFFER, "buffer_full"), (DOUBT_COMMITS, "commits_hang"))
cdef tuple RISKS = ((RISK_COMMIT, "synchronous_commit"), (RISK_STANDBY, "synchronous_commit_local"),
                    (RISK_FSYNC, "fsync"), (RISK_PAGES, "full_page_writes"))

cdef bytes slice_bytes(Slice s):
    return s.p[:s.n]

cdef list header_pairs(Slice raw):
    # Returns lines checked by head_fields, as (lower-case name, value).
    out = []
    for line in slice_bytes(raw).splitlines():
        name, value = line.split(b":", 1)
        out.append((name.lower(), value.strip(b" \t")))
    return out

def hot_routes_of_core():
    """What the core answers by itself: (level, method, path below / with `:name` for a segment)."""
    return [(hot_routes[i].level, METHODS[method], hot_routes[i].path.decode().strip("/").replace("?", ""))
            for i in range(n_hot_routes) for method in range(METHOD_GET, METHOD_HEAD)
            if hot_routes[i].methods >> method & 1]

def log_write(bytes line, int wait_ms=0):
    """One whole line of the log, of at most 4096 bytes. It is dropped, and counted, where nobody reads the log: who is
    late is waited for so long."""
    cdef const char* text = line
    cdef size_t n = <size_t>len(line)
    with nogil:
        if not log_put(text, n, wait_ms):
            log_drop()

cdef class Core:
    """The HTTP server and the engine behind it. One per process.

    settings: flat; TypeError or ValueError for a wrong value or an unknown name.
    """
    cdef Process p
    cdef bint opened
    cdef object ending      # lock of the stopping thread: a second stop waits for the first

    def __cinit__(self, dict settings):
        global core_exists, strict
        self.ending = Lock()
        memset(&self.p, 0, sizeof(Process))
        if core_exists:
            raise RuntimeError("there is a Core in this process already")
        settings = dict(settings)
        keys = settings.pop("seal_keys", "")
        hidden = settings.pop("hidden", "").encode()
        refuses = settings.pop("refuse_plain", False)
        strictness = settings.pop("strict", False)
        settings_load(&self.p.settings, settings)
        seal_ring_load(keys)
        sealring.refuses = refuses
        strict = strictness
        global log_hidden
        free(log_hidden)
        log_hidden = <char*>slice_keep(slice_lit(hidden)).p if hidden else NULL
        if hidden and log_hidden == NULL:
            raise MemoryError()
        if not bridge_open(self.p.settings.max_bridged, self.p.settings.max_queued_jobs,
                           self.p.settings.max_bridged_bytes):
            raise OSError("eventfd: no descriptor left")
        if not timerbell_open():
            bridge_close()
            raise OSError("eventfd: no descriptor left")
        if self.p.settings.grants:
            if not grants_open(self.p.settings.grants):
                timerbell_close()
                bridge_close()
                raise MemoryError()
            grants.skips = self.p.settings.open_paths
        engine_service()
        head_open()
        tlscontext_open()
        budget_open(&self.p.settings)
        origin_open(&self.p.settings)
        health_edition_open(self.p.settings.edition)
        core_exists = True
        self.opened = True
        self.buffer_open()

    def __dealloc__(self):
        global core_exists
        if self.p.running:
            process_stop(&self.p, 0)
            process_halt(&self.p)
        if self.p.workers != NULL:
            process_free(&self.p)
        settings_free(&self.p.settings)
        if self.opened:
            timerbell_close()
            bridge_close()
            budget_close()
            tlscontext_close()
            grants_close()
            origin_close()
            seal_close(&seal_python)
            seal_ring_close()
            spool_close()
            core_exists = False

    cdef int buffer_open(self) except -1:
        # Opens the failover buffer. Requires that the folder belongs to this process: the maker of the settings has
        # locked it.
        cdef char[256] reason
        cdef uint64_t number
        cdef int error
        cdef Settings* s = &self.p.settings
        reason[0] = 0
        spool_open(s.buffer_dir, s.buffer_bytes, s.buffer_records, s.buffer_chunk, s.buffer_pause_ms, reason,
                   sizeof(reason))
        if spool.on:
            error = segment_count_failed()
            if error:
                raise OSError(f"failover buffer, quarantine: {os.strerror(error)}")
            for name in sorted(os.listdir(<bytes>s.buffer_dir)):
                if name.endswith(b".seg") and len(name) == 24 and name[:20].isdigit():
                    number = int(name[:20])
                    with nogil:
                        segment_recover_file(number, reason, sizeof(reason))
                    if reason[0]:
                        break
        if reason[0]:
            raise OSError((<bytes>reason).decode())
        return 0

    def buffer(self):
        """The failover buffer: records and bytes in it, since when the oldest waits (s since the epoch, 0: empty), what
        could not be stored, records ever taken and drained, and whether the database is away. None: it is off."""
        if not spool.on:
            return None
        return {"pending": spool.pending, "bytes": spool.bytes,
                "oldest": spool.oldest_us / 1e6 if spool.pending else 0.0,
                "failed": spool.failed, "taken": spool.taken, "drained": spool.drained, "healthy": not spool.trouble,
                "away": spool.gate == GATE_SHUT and not spool.paused, "paused": spool.paused}

    def adopt(self, str folder, uint64_t number):
        """Offers the buffer a segment of a folder that the caller has locked. It is taken, and gone from there, when
        the buffer has nothing else to do; who still finds it there offers it again."""
        cdef bytes path = os.fsencode(folder)
        cdef AdoptMsg* m
        if not spool.on or <size_t>len(path) >= sizeof(m.dir):
            return
        m = <AdoptMsg*>calloc(1, sizeof(AdoptMsg))
        if m == NULL:
            raise MemoryError()
        memcpy(m.dir, <const char*>path, len(path))
        m.number = number
        m.msg.run = refill_adopt
        if leader == NULL or not worker_post(leader, &m.msg):
            free(m)

    def pause(self, bint pushes, bint pops):
        """Maintenance. pushes: all go into the failover buffer, which is not drained; without one they are refused.
        pops: they find nothing."""
        global pops_paused
        pops_paused = pops
        spool.paused = pushes
        if not spool.on:
            spool.gate = GATE_SHUT if pushes else GATE_OPEN
        waiters_post_leader(waiters_leader_woken)

    def start(self, bint connects=True, bint accepts=True):
        """Binds and starts the threads; the port really bound. OSError with the reason when that is impossible.

        accepts: connections at once; else they wait in the kernel until `accept`.

        connects: to the database at once; else `connect` has to say that it is ready. Until then pushes go into the
        failover buffer and everything else is told that the database cannot be reached.
        """
        cdef char[256] reason
        cdef bint ok
        if self.p.workers != NULL:
            raise RuntimeError("started before")
        reason[0] = 0
        self.p.connects = connects
        with nogil:
            ok = process_start(&self.p, reason, sizeof(reason)) and (not accepts or process_accept(&self.p))
        if not ok:
            raise OSError((<bytes>reason).decode(errors="replace"))
        return self.p.port

    def secure(self, bytes certificate, bytes key, bytes authorities=b"", bint required=False):
        """Uses a certificate and its key, in PEM, for new connections; ValueError with the reason if they are not
        usable. Called before the start, it has the port speak TLS; later it replaces what an earlier call gave.

        authorities: of client certificates, which clients may show; required: which they must show.
        """
        cdef char[256] reason
        cdef SSL_CTX* made
        if self.p.workers != NULL and not tlscontext.on:
            raise RuntimeError("the port is plain")
        made = tlscontext_new(slice_of(certificate, len(certificate)), slice_of(key, len(key)),
                              slice_of(authorities, len(authorities)), required, reason, sizeof(reason))
        if made == NULL:
            raise ValueError((<bytes>reason).decode())
        if tlscontext.method == NULL:
            tlscontext.method = tls_method()
        if tlscontext.method == NULL:
            SSL_CTX_free(made)
            raise MemoryError()
        tlscontext_put(made)
        if not tlscontext.on:     # workers read it, and may run
            tlscontext.on = True

    def accept(self):
        """Takes connections. After a start that did not accept."""
        if self.p.running and not process_accept(&self.p):
            raise OSError("a thread could not start")

    def address(self):
        """The address really bound, as in a URL, and whether only this machine can reach it."""
        return (<bytes>self.p.address).decode(), bool(self.p.loopback)

    def change(self, str log_level, int max_connections, int max_per_address):
        """What may change while it runs: the lowest level of the log, how many connections there may be."""
        if max_connections < 1 or max_per_address < 0:
            raise ValueError("there must be a connection")
        level = "debug" if log_level == "trace" else log_level
        log_level_set(level.encode())
        budget_change(max_connections, max_per_address)

    def beat(self):
        """The control plane's loop runs. To be called once a second, by it."""
        atomic_set64(&self.p.watch.beat_ms, clock_mono_us() // 1000)

    def feed(self, bytes address, int period_ms):
        """From now on `WATCHDOG=1` goes to this Unix socket, at least twice in each period while every worker turns.
        False: it is no address."""
        return bool(watchdog_feed(&self.p, address, len(address), period_ms))

    def connect(self):
        """The database is there and has the schema of this version. After a start that did not connect."""
        if self.p.running:
            process_connect(&self.p)

    def stop(self, int grace_ms):
        """Stops accepting, answers what is in flight, closes. True when everything was answered within grace_ms. One
        that is asked while another stops it waits for that one."""
        cdef bint drained
        with self.ending:
            if not self.p.running:
                return True
            with nogil:
                drained = process_stop(&self.p, grace_ms)
            process_halt(&self.p)
        return drained

    def ready(self):
        """Does the database answer, every worker?"""
        return self.p.running and engine_ready(&self.p)

    def unready(self):
        """Returns why requests are not all served now, as the reason of /readyz; None if they are."""
        cdef const char* why = b"The server is shutting down"
        if self.p.running:
            why = engine_unready(&self.p)
        return None if why == NULL else (<bytes>why).decode()

    def unserved(self):
        """Why the functions of the database do not serve this version; None: they do, as far as known."""
        return edition_reason()

    def database(self):
        """What is known of the database: "doubts" (away, silent, disk_full, read_only, refused, crowded, buffer_full,
        commits_hang), "risks" (settings that let a crash take what was committed) and "server", a number that grows
        with each life of a server that was met."""
        cdef int64_t doubts = engine_doubts(&self.p) if self.p.running else DOUBT_AWAY
        cdef int risks = incarnation.risks
        return {"doubts": [name for bit, name in DOUBTS if doubts & <int64_t>bit],
                "risks": [name for bit, name in RISKS if risks & <int>bit],
                "server": incarnation_now()}

    def wants_commit(self):
        """Returns True while a commit is to be tried: commits hang, or a statement that changes something waits for its
        answer and nothing else is stored."""
        return health_wants_commit(clock_mono_us())

    def late(self):
        """Returns True while a statement that changes something has waited for half a second for its answer."""
        return health_late(clock_mono_us())

    def committed(self):
        """Notes that the database has committed something, as far as the control plane knows."""
        with nogil:
            health_stored()

    def spare(self):
        """One connection to PostgreSQL, of the worker that has most, is closed for some seconds, so that somebody else
        gets it."""
        if self.p.running and not engine_lend(&self.p):
            raise MemoryError()

    def bridge_fileno(self):
        """Readable when requests wait for bridge_take."""
        return bridge.fd

    def bridge_take(self):
        """Requests for the control plane: (token, method, raw path, raw query, headers, body, client address).

        With an empty method: a request whose bearer token, given as the body, has no grant. It waits for grant and
        bridge_resume, or for bridge_reply.
        """
        cdef BridgeCall* c = bridge_shift()
        cdef Request* r
        out = []
        try:
            while c != NULL:
                r = c.r
                if c.held:
                    out.append((c.token, "", slice_bytes(r.path), b"", [], slice_bytes(gate_token(r)),
                                (<bytes>c.client).decode()))
                else:
                    out.append((c.token, METHODS[r.method], slice_bytes(r.path), slice_bytes(r.query),
                                header_pairs(r.headers_raw), slice_bytes(r.body), (<bytes>c.client).decode()))
                c = bridge_shift()
        finally:
            bridge_copied()
        return out

    def bridge_wanted(self, uint64_t token):
        """False: the client of a taken request has left. The request needs its bridge_reply, but no work."""
        return bridge_wanted(token)

    def bridge_reply(self, uint64_t token, int status, headers, body):
        """Answers a taken request; a token whose client has left is ignored. headers: (name, value) pairs of bytes.
        body: bytes, or the memoryview of read_answer, which is released.

        The core adds Date, Connection and Content-Length. ValueError for what cannot be sent.
        """
        cdef bytes lines = b""
        cdef ReadBlock block = None
        cdef char* given = NULL
        cdef Slice text
        if not 200 <= status <= 599:
            raise ValueError(f"status {status}")
        for name, value in headers:
            if name.lower() in (b"content-length", b"connection", b"date", b"transfer-encoding", b"keep-alive"):
                continue
            if (not name or any(c < ord("!") or c > ord("~") or c == ord(":") for c in name)
                    or any(c in b"\r\n\0" for c in value)):
                raise ValueError(f"malformed header {name!r}: {value!r}")
            lines += name + b": " + value + b"\r\n"
        if isinstance(body, bytes):
            text = slice_of(<bytes>body, len(body))
        else:
            block = body.obj
            text = slice_of(block.memory + REPLY_ROOM, block.size)
            body.release()
            if block.views == 0:
                given = block.memory
        if bridge_answer(token, status, slice_of(lines, len(lines)), text, given) == NULL:
            raise MemoryError()
        if given != NULL:
            block.memory = NULL

    def bridge_resume(self, uint64_t token):
        """Lets a request that waited for its token go on: it is looked up again."""
        if bridge_answer(token, BRIDGE_PASSED, slice_lit(b""), slice_lit(b""), NULL) == NULL:
            raise MemoryError()

    def grant(self, bytes bearer, int level, int64_t expires_us, bytes subject, rules=None):
        """What a verified bearer token allows, until expires_us (wall clock) or grants_clear.

        level: 0 nothing, 1 read, 2 write, 3 everything. rules: [(pattern of queue names, verbs, pattern of
        group names or None)], verbs a sum of 1 push, 2 pop and ack, 4 read, 8 manage; None: every queue.
        ValueError beyond 256 rules or 255 bytes of a text.
        """
        if not grants.on:
            raise RuntimeError("the core was started without grants")
        grants_put(grant_make(bearer, level, expires_us, subject, rules))

    def ticket(self, bytes ticket, bytes path, int64_t until_us, int level, int64_t expires_us, bytes subject,
               rules=None):
        """Lets one request for a stream at this path in, until until_us (wall clock), with this grant. False: too many
        tickets wait to be used."""
        if not grants.on:
            raise RuntimeError("the core was started without grants")
        return grant_ticket_put(path, until_us, grant_make(ticket, level, expires_us, subject, rules))

    def grants_clear(self):
        """Forgets all grants: every token is verified again."""
        if grants.on:
            grants_clear()

    def grants_epoch(self):
        """How often grants_clear was called: what was verified under another number is to be verified again."""
        return atomic_get64(&grants_epoch)

    def notify(self, str queue, bint moved=True):
        """Has the catalogue read again and wakes the parked pops of a queue. moved: where its groups stand may have
        changed, not only options or pauses."""
        cdef bytes name = queue.encode()
        if self.p.running:
            reload_notify(slice_of(name, len(name)), moved)

    def look(self):
        """Has what other programs committed looked for now, not with the next second."""
        engine_look()

    def timers_fileno(self):
        """Readable when a timer was scheduled that is due before the end of timers_sleep."""
        return timerbell.fd

    def timers_begin(self):
        """The timers are looked at next, with those scheduled until now."""
        timerbell_begin()

    def timers_sleep(self, int64_t until_us):
        """Until when to sleep, by the monotonic clock: earlier if a timer was scheduled since timers_begin."""
        return timerbell_sleep(until_us)

    def version(self):
        """The version of the catalogue that this process goes by, -1: none, as before the start and after the stop."""
        cdef int64_t version
        if not self.p.running:
            return VERSION_NONE
        uv_rwlock_rdlock(&catalog.lock)
        version = catalog.version
        uv_rwlock_rdunlock(&catalog.lock)
        return version

    def tallies(self):
        """What queues did since start: [(queue id, name, worker, (push requests, push messages, pop requests, pop
        messages, empty pops, ack requests, acknowledged, refused, transactions, lag sum in microseconds, pops in it,
        largest lag since the last call))], without those that did nothing."""
        return stats_tallies(self.p.running)

    def parked(self):
        """Pops that are parked now, by queue: [(queue id, name, how many)]."""
        return stats_parked(self.p.running)

    def spans(self):
        """Spans of traces since the last call: [(kind, trace, parent, start and end in microseconds, status, messages,
        offset or -1, queue, partition, group)]."""
        return stats_spans(&self.p)

    def operations(self):
        """Per worker, for each kind of request: (answered, items in them, answered with an error, microseconds until
        the answers)."""
        return [{name: (one["requests"], one["items"], one["errors"], one["latency_sum_us"])
                 for name, one in zip(OP_NAMES, worker["op"])} for worker in stats_counters(&self.p)]

    def ephemeral_configure(self, bytes queue, tuple options):
        """Declares an ephemeral queue. options: (maxBytes, maxLength, seconds of life, seconds of a lease, retryLimit,
        window in ms, window in messages, whether the oldest are dropped); None: it is declared no longer. False: there
        is no room for it."""
        cdef Slice name = slice_of(queue, len(queue))
        cdef EphOptions o = EPH_DEFAULTS
        cdef bint declared = options is not None
        cdef bint good
        if declared:
            (o.max_bytes, o.max_length, o.ttl_us, o.lease_us, o.retry_limit, o.window_ms, o.window_count,
             o.drops_oldest) = options
            o.ttl_us *= 1000000
            o.lease_us *= 1000000
        if not self.p.running:
            return False
        with nogil:
            good = ephcontrol_configure(name, &o, declared)
        return good

    def ephemeral_reset(self, bytes queue):
        """Drops all messages of an ephemeral queue, and voids its leases. Returns how many."""
        cdef Slice name = slice_of(queue, len(queue))
        cdef int64_t n = 0
        if self.p.running:
            with nogil:
                n = ephcontrol_empty(name, False)
        return max(n, 0)

    def ephemeral_delete(self, bytes queue):
        """Forgets an ephemeral queue. False: it was unknown."""
        cdef Slice name = slice_of(queue, len(queue))
        cdef int64_t n = -1
        if self.p.running:
            with nogil:
                n = ephcontrol_empty(name, True)
        return n >= 0

    def ephemeral_queues(self):
        """The ephemeral queues, as the elements of an array of JSON."""
        cdef Buf b
        buf_init(&b)
        try:
            if self.p.running:
                with nogil:
                    ephcontrol_list(&b)
            if b.failed:
                raise MemoryError()
            return b"[" + (b"" if b.len == 0 else <bytes>b.data[:b.len]) + b"]"
        finally:
            buf_free(&b)

    def ephemeral_depth(self, bytes queue, bytes group):
        """The depth of an ephemeral queue, for a group or (None) without one, as the rest of an object of JSON; None:
        it is unknown."""
        cdef Slice name = slice_of(queue, len(queue))
        cdef Slice of = slice_of(NULL, 0) if group is None else slice_of(group, len(group))
        cdef Buf b
        cdef bint known = False
        buf_init(&b)
        try:
            if self.p.running:
                with nogil:
                    known = ephcontrol_depth(name, of, &b)
            if b.failed:
                raise MemoryError()
            return <bytes>b.data[:b.len] if known else None
        finally:
            buf_free(&b)

    def ephemeral_figures(self):
        """Sums of the ephemeral queues: {"limit", "bytes", "queues", "pushed", "popped", …}."""
        return {"limit": eph_limits.bytes, "peers": bool(eph_limits.shared), "bytes": atomic_get64(&eph_figures.bytes),
                "queues": atomic_get64(&eph_figures.queues), "pushed": atomic_get64(&eph_figures.pushed),
                "popped": atomic_get64(&eph_figures.popped), "acked": atomic_get64(&eph_figures.acked),
                "redelivered": atomic_get64(&eph_figures.redelivered),
                "refused": atomic_get64(&eph_figures.refused),
                "dropped": {"bounds": atomic_get64(&eph_figures.dropped_bounds),
                            "ttl": atomic_get64(&eph_figures.dropped_ttl),
                            "retry": atomic_get64(&eph_figures.dropped_retry)}}

    def stats(self):
        """Counters since start: {"workers": [per worker], "jobs": {kind: summed}, "catalog": {kind: in memory now}};
        latencies by bucket, bucket i counts those below 2**i microseconds."""
        seen = stats_counters(&self.p)
        clients = {"connections": atomic_get64(&budget.connections), "refused": budget.refused,
                   "arriving": atomic_get64(&budget.arriving), "untaken": atomic_get64(&budget.untaken)}
        return {"workers": [stats_worker(worker) for worker in seen],
                "jobs": {name: stats_job([worker["op"][i] for worker in seen]) for i, name in enumerate(OP_NAMES)},
                "catalog": stats_catalog(), "clients": clients,
                "times": {name: (stats_buckets([worker[name]["n"] for worker in seen]),
                                 sum([worker[name]["sum_us"] for worker in seen])) for name in ("age", "statement")}}

    def leaks(self):
        """What is alive: all zero after stop."""
        workers = [stats_worker(worker) for worker in stats_counters(&self.p)]
        out = {name: sum([worker[name] for worker in workers])
               for name in ("connections", "requests", "jobs", "slots", "handles", "parked", "streams")}
        out["remembered"] = sum(stats_catalog().values())
        return out
