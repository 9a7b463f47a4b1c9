# The operator's settings as the threads read them. In: a dict from Python. Out: a Settings, or an error with the
# setting's name. Owner: the process; written once before the threads start, constant afterwards. No locks.

# ---- fields ----------------------------------------------------------------------------------------------------------

cdef enum JobType:
    TYPE_PUSH = 0
    TYPE_POP = 1
    TYPE_ACK = 2
    TYPE_TRANSACTION = 3
    TYPE_LEASE = 4
    TYPE_KV = 5
    TYPE_COUNT = 6

cdef struct TypeSettings:
    int preferred             # jobs: a statement leaves at this number
    int hold_ms               # a statement leaves when its oldest job is this old
    int max_jobs              # jobs in one statement
    int max_concurrent        # statements in flight per worker

cdef struct Settings:
    char* host                # name or address; "": every address
    int port                  # 0: any free port
    int workers
    bint reuseport            # True: every worker accepts connections itself
    int backlog
    char* sockets             # inherited listening sockets: numbers, each ended by a NUL, then an empty one
    char* conninfo            # libpq connection string
    char* session             # statement that configures each session, "": none
    int slots                 # PostgreSQL connections per worker
    int push_streams          # appenders (push streams) of the process
    int64_t cache_bytes       # memory for the cache of the newest rows
    int compress_from         # payload bytes from which a row of the log is compressed, 0: never
    int64_t ephemeral_bytes   # memory of all ephemeral queues; 0: there are none
    bint has_peers
    int64_t dedupe_bytes      # memory for remembered ids, of the process
    int64_t max_body          # bytes of one request's body; larger: 413
    int64_t max_control       # bytes of a body for the control plane, except on large_paths
    int64_t max_open          # bytes of a body for the control plane on paths that need no token
    char* large_paths         # paths of the control plane that take max_body, each ended by a NUL, then an empty one
    int64_t max_arriving      # bytes held for incomplete requests of all connections; beyond: 503
    int64_t max_untaken       # bytes of unsent answers of all connections
    int64_t max_untaken_of_one        # bytes of unsent answers of one connection, if they belong to several answers
    int64_t max_bridged_bytes # bytes of bodies that the control plane has not answered; beyond: 503
    int least_rate            # bytes per second at which a body must arrive, 0: any rate
    int max_parked            # waiting pops; beyond: 503
    int max_queues            # queues in the database; beyond: 409; 0: unbounded
    int max_partitions        # partitions of a queue; beyond: 409; 0: unbounded
    int max_groups            # consumer groups of a queue; beyond: 409; 0: unbounded
    int request_log           # logs one of this many requests, 0: off
    int trace_share           # records spans of one of this many traces, 0: off
    int stuck_ms              # time without a turn after which a worker counts as stuck; 0: never
    int control_stuck_ms      # time without a beat after which the control plane counts as stuck; 0: never
    int max_connections       # connections; beyond: 503
    int max_per_address       # connections per address; beyond: 429; 0: unbounded
    int max_head              # bytes of request line and headers; beyond: 431
    int max_target            # bytes of the request target; beyond: 414
    int max_pipeline          # unanswered requests of one connection; beyond: reading pauses
    int max_items             # items in one request
    int max_queued_jobs
    int64_t max_queued_bytes
    char* buffer_dir          # directory of the failover buffer, "": no buffer
    int64_t buffer_bytes      # bytes of the failover buffer; 0: no buffer
    int buffer_records        # records in one file of the failover buffer
    int buffer_chunk          # records drained at once
    int buffer_pause_ms       # pause between two attempts to drain
    int max_bridged           # requests that the control plane has not answered; beyond: 503
    int grants                # remembered verified tokens; 0: requests need no token
    char* open_paths          # paths that need no token, as in Grants.skips
    bint guards_pages         # without tokens: refuses requests of pages of other sites
    char* origins             # origins of pages that may ask and read, as in Sites
    char* hosts               # names of this machine, as in Sites
    int head_timeout_ms       # from a request's first byte to the end of its headers
    int body_timeout_ms       # longest time without a byte of an announced body
    int write_timeout_ms      # longest time without a byte taken by the client
    int idle_timeout_ms       # between requests; 0: no limit
    int stop_patience_ms      # for the rest of a request while the worker drains
    int patience_ms           # how long a request waits for an unavailable database
    int edition               # edition of the SQL functions that the statements need; 0: not checked
    int deadline_ms           # time after which a statement in flight counts as lost
    int default_timeout_ms    # of a long poll
    int default_batch         # of a pop
    int cycles                # stream cycles in the database at once per worker
    int priority_share        # one of this many namespace pops goes to a lower priority; 0: none
    bint default_new          # new groups begin with new messages only
    int look_ms               # interval between two looks for records that other daemons stored
    bint vegas                # True: Vegas limits; False: static limits
    int vegas_min_limit
    int vegas_max_limit
    int vegas_alpha
    int vegas_beta
    int vegas_window_samples
    int vegas_fastest_window_sec
    int vegas_interval_ms
    TypeSettings[TYPE_COUNT] types

# ---- read from Python ------------------------------------------------------------------------------------------------

cdef int settings_load(Settings* s, dict settings) except -1:
    # Fills s from the dict; requires a zeroed s. Raises TypeError or ValueError with the setting's name; refuses
    # unknown names.
    cdef dict d = dict(settings)
    cdef int top = 2147483647
    cdef int i
    s.host = setting_text(d, "host", "127.0.0.1")
    s.conninfo = setting_text(d, "conninfo", "")
    s.session = setting_text(d, "session", "")
    s.open_paths = setting_text(d, "open_paths", "", True)
    s.guards_pages = setting_int(d, "guards_pages", 0, 0, 1)
    s.origins = setting_text(d, "origins", "", True)
    s.hosts = setting_text(d, "hosts", "", True)
    s.buffer_dir = setting_text(d, "buffer_dir", "")
    s.buffer_bytes = setting_int(d, "buffer_bytes", 1 << 30, 0, 1 << 50)
    s.buffer_records = setting_int(d, "buffer_records", 100000, 1, top)
    s.buffer_chunk = setting_int(d, "buffer_chunk", 4000, 1, 20000)
    s.buffer_pause_ms = setting_int(d, "buffer_pause_ms", 100, 1, top)
    s.grants = setting_int(d, "grants", 0, 0, 1 << 24)
    s.port = setting_int(d, "port", 6632, 0, 65535)
    s.workers = setting_int(d, "workers", 1, 1, 256)
    s.reuseport = setting_word(d, "listen_mode", ("acceptor", "reuseport")) == "reuseport"
    s.backlog = setting_int(d, "backlog", 4096, 1, 65535)
    s.sockets = setting_text(d, "sockets", "", True)
    s.slots = setting_int(d, "slots_per_worker", 8, 1, 1000)
    s.push_streams = setting_int(d, "push_streams", 1, 1, 64)
    s.cache_bytes = setting_int(d, "cache_bytes", 32 << 20, 0, 1 << 50)
    s.compress_from = setting_int(d, "compress_from", 1024, 0, top)
    s.dedupe_bytes = setting_int(d, "dedupe_bytes", 256 << 20, 0, 1 << 50)
    s.ephemeral_bytes = setting_int(d, "ephemeral_bytes", 64 << 20, 0, 1 << 50)
    s.has_peers = setting_int(d, "has_peers", 0, 0, 1)
    s.max_body = setting_int(d, "max_body", 64 << 20, 1, 4 << 30)
    s.max_control = setting_int(d, "max_control_body", s.max_body, 1, 4 << 30)
    s.max_open = setting_int(d, "max_open_body", s.max_body, 1, 4 << 30)
    s.large_paths = setting_text(d, "large_paths", "", True)
    s.max_arriving = setting_int(d, "max_arriving", max(128 << 20, 2 * s.max_body), 4096, 1 << 50)
    s.max_untaken = setting_int(d, "max_untaken", 128 << 20, 1 << 16, 1 << 50)
    s.max_untaken_of_one = setting_int(d, "max_untaken_of_one", 64 << 20, 1 << 16, 1 << 50)
    s.max_bridged_bytes = setting_int(d, "max_bridged_bytes", 64 << 20, 1, 1 << 50)
    s.least_rate = setting_int(d, "least_rate", 1024, 0, top)
    s.max_parked = setting_int(d, "max_parked", top, 0, top)
    s.max_queues = setting_int(d, "max_queues", 0, 0, top)
    s.max_partitions = setting_int(d, "max_partitions", 0, 0, top)
    s.max_groups = setting_int(d, "max_groups", 0, 0, top)
    s.request_log = setting_int(d, "request_log", 0, 0, top)
    s.trace_share = setting_int(d, "trace_share", 0, 0, top)
    s.stuck_ms = setting_int(d, "stuck_ms", 30000, 0, top)
    s.control_stuck_ms = setting_int(d, "control_stuck_ms", 600000, 0, top)
    s.max_connections = setting_int(d, "max_connections", top, 1, top)
    s.max_per_address = setting_int(d, "max_per_address", 0, 0, top)
    s.max_head = setting_int(d, "max_head", 32 << 10, 1024, 1 << 20)
    s.max_target = setting_int(d, "max_target", 8 << 10, 256, 1 << 20)
    s.max_pipeline = setting_int(d, "max_pipeline", 64, 1, 100000)
    s.max_items = setting_int(d, "max_items", 10000, 1, 1000000)
    s.max_queued_jobs = setting_int(d, "max_queued_jobs", 100000, 1, top)
    s.max_queued_bytes = setting_int(d, "max_queued_bytes", 256 << 20, 1, 1 << 50)
    s.max_bridged = setting_int(d, "max_bridged", 1024, 1, 1000000)
    s.head_timeout_ms = setting_int(d, "head_timeout_ms", 10000, 1, top)
    s.body_timeout_ms = setting_int(d, "body_timeout_ms", 30000, 1, top)
    s.write_timeout_ms = setting_int(d, "write_timeout_ms", 60000, 1, top)
    s.idle_timeout_ms = setting_int(d, "idle_timeout_ms", 300000, 0, top)
    s.stop_patience_ms = setting_int(d, "stop_patience_ms", 1000, 1, top)
    s.patience_ms = setting_int(d, "patience_ms", 10000, 1, top)
    s.edition = setting_int(d, "edition", 0, 0, top)
    s.deadline_ms = setting_int(d, "inflight_deadline_ms", 35000, 1, top)
    s.default_timeout_ms = setting_int(d, "default_timeout_ms", 30000, 0, top)
    s.default_batch = setting_int(d, "default_batch", 1, 1, 100000)
    s.default_new = setting_word(d, "default_sub_mode", ("all", "new")) == "new"
    s.cycles = setting_int(d, "streams_cycle_max_concurrent", 16, 1, top)
    s.priority_share = setting_int(d, "priority_share", 10, 0, top)
    s.look_ms = setting_int(d, "look_ms", 1000, 1, top)
    s.vegas = setting_word(d, "concurrency_mode", ("vegas", "static")) == "vegas"
    s.vegas_min_limit = setting_int(d, "vegas_min_limit", 1, 1, top)
    s.vegas_max_limit = setting_int(d, "vegas_max_limit", 32, 1, top)
    s.vegas_alpha = setting_int(d, "vegas_alpha", 3, 0, top)
    s.vegas_beta = setting_int(d, "vegas_beta", 12, 0, top)
    s.vegas_window_samples = setting_int(d, "vegas_rtt_window_samples", 50, 1, top)
    s.vegas_fastest_window_sec = setting_int(d, "vegas_rtt_min_window_sec", 30, 1, top)
    s.vegas_interval_ms = setting_int(d, "vegas_update_interval_ms", 1000, 1, top)
    for i, (name, preferred, most, concurrent) in enumerate((
            ("push", 50, top, 24), ("pop", 20, 500, 16), ("ack", 50, 500, 16), ("transaction", 1, 1, 16),
            ("renew_lease", 10, 100, 2), ("kv", 50, 200, 4))):
        s.types[i].preferred = setting_int(d, name + "_preferred_batch_size", preferred, 1, top)
        s.types[i].hold_ms = setting_int(d, name + "_max_hold_ms", 0, 0, top)
        s.types[i].max_jobs = setting_int(d, name + "_max_batch_size", most, 1, top)
        s.types[i].max_concurrent = setting_int(d, name + "_max_concurrent", concurrent, 1, top)
    level = setting_word(d, "log_level", ("info", "trace", "debug", "warn", "error"))
    if d:
        raise ValueError(f"unknown settings: {', '.join(sorted(d))}")
    log_level_set({"trace": b"debug"}.get(level, level.encode()))
    return 0

cdef object setting_int(dict given, str name, object default, object low, object high):
    value = given.pop(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be between {low} and {high}, not {value}")
    return value

cdef object setting_word(dict given, str name, tuple words):
    # Returns the setting's value. The first word is the default.
    value = given.pop(name, words[0])
    if value not in words:
        raise ValueError(f"{name} must be one of {', '.join(words)}, not {value!r}")
    return value

cdef char* setting_text(dict given, str name, str default, bint listed=False) except NULL:
    # Returns an owned copy of the setting. listed: commas separate texts; each text is ended by a NUL, then an empty
    # one.
    value = given.pop(name, default)
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    cdef bytes text = value.encode()
    if b"\0" in text:
        raise ValueError(f"{name} contains a NUL byte")
    if listed:
        text = b"\0".join([one for one in text.split(b",") if one])
    cdef char* copy = <char*>calloc(1, len(text) + 2)
    if copy == NULL:
        raise MemoryError()
    memcpy(copy, <const char*>text, len(text))
    return copy

cdef void settings_free(Settings* s) noexcept nogil:
    cdef char** texts = [s.host, s.sockets, s.conninfo, s.session, s.open_paths, s.large_paths, s.origins, s.hosts,
                         s.buffer_dir]
    cdef int i
    for i in range(9):
        free(texts[i])
    memset(s, 0, sizeof(Settings))
