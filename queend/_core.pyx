# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, embedsignature=True
"""The data plane of queend: from socket to socket without the interpreter.

This file is the map. Rooms stand in the order in which data passes them; each opens with what comes in, what goes out
and what it owns. A room uses only what stands above it (tests/check/test_rooms.py); upwards it calls through
pointers that state/ declares: Service (sockets to the engine), JobKind (what is done with a job), HotRoute and Drain
(rows of run/kinds), Elsewhere (the failover buffer).
"""
# Base: memory, time and tables for every room. Owns nothing.
include "core/base/base.pxi"              # C declarations for every room
include "core/base/word.pyx"              # big-endian numbers
include "core/base/slice.pyx"             # borrowed bytes
include "core/base/buffer.pyx"            # owned, growable bytes
include "core/base/memory.pyx"            # settings of the allocator
include "core/base/arena.pyx"             # memory of one request
include "core/base/scratch.pyx"           # reusable scratch memory
include "core/base/unzip.pyx"             # unpacks a zstd frame
include "core/base/coding.pyx"            # gzip and zstd streams of any size
include "core/base/clock.pyx"             # wall and monotonic time
include "core/base/uuid.pyx"              # UUIDs: generated, parsed, formatted, derived
include "core/base/table.pyx"             # hash table of pointers
include "core/base/heap.pyx"              # heap of due times
include "core/base/era.pyx"               # eras (reclamation epochs): when deleted entries may be freed
include "core/base/error.pyx"             # the error of a refused request
include "core/base/counter.pyx"           # counters
include "core/base/log.pyx"               # log lines

# JSON, validated and sliced in place. In: bytes. Out: slices of them.
include "core/json/utf8.pyx"              # UTF-8 validation
include "core/json/scan.pyx"              # JSON validation
include "core/json/token.pyx"             # strings and numbers
include "core/json/values.pyx"            # bounds the values of a JSON body
include "core/json/text.pyx"              # reads and writes string literals
include "core/json/member.pyx"            # members of an object, by name
include "core/json/body.pyx"              # a JSON body, or its refusal

# HTTP/1.1 as text, without sockets. In: bytes. Out: request heads and fields; response heads.
include "core/http/parse.pyx"             # request head
include "core/http/known.pyx"             # known header fields
include "core/http/chunked.pyx"           # chunked body
include "core/http/field.pyx"             # values of a header field
include "core/http/query.pyx"             # query and percent-decoding
include "core/http/head.pyx"              # response head
include "core/http/problem.pyx"           # an error as problem+json

# Payloads of encrypted queues. In: a payload and a queue's name. Out: an envelope, and back. Owns the key ring.
include "core/seal/ring.pyx"              # key ring of encrypted queues
include "core/seal/seal.pyx"              # encrypts and decrypts payloads

# Arrow streams read in place. In: a body. Out: columns.
include "core/arrow/flat.pyx"             # FlatBuffers, read in place
include "core/arrow/column.pyx"           # a column of a record batch
include "core/arrow/schema.pyx"           # the schema's columns
include "core/arrow/reader.pyx"           # an Arrow stream, batch by batch

# PostgreSQL on the loop. In: statements and their parameters. Out: results, and the class of an error. Owns connections
# (each its worker's) and the server's incarnation. Locks: incarnation.lock, the first of all locks.
include "core/pg/encode.pyx"              # binary parameters
include "core/pg/decode.pyx"              # binary results
include "core/pg/dbclock.pyx"             # the database's clock
include "core/pg/verdict.pyx"             # SQLSTATEs: class of an error and the reaction
include "core/pg/statement.pyx"           # statements of the hot path
include "core/pg/args.pyx"                # their parameters, by name
include "core/pg/address.pyx"             # host names and addresses of the server
include "core/pg/incarnation.pyx"         # identity of the server
include "core/pg/edition.pyx"             # edition of the database's functions
include "core/pg/doubt.pyx"               # health of the database
include "core/pg/slot.pyx"                # one PostgreSQL connection on the loop
include "core/pg/serve.pyx"               # a statement on a slot
include "core/pg/dial.pyx"                # connects a slot
include "core/pg/pool.pyx"                # a worker's slots
include "core/pg/extras.pyx"              # fields of a record besides its payload
include "core/pg/batchrow.pyx"            # a row of the log, sliced
include "core/pg/bodypack.pyx"            # compresses the payloads of a row

# Structs, enums and constants used by several files. Fields say what they mean, who writes them and which lock guards
# them.
include "core/state/settings.pyx"         # settings of the operator
include "core/state/requests.pyx"         # contents of a request
include "core/state/grants.pyx"           # grant of a token
include "core/state/jobs.pyx"             # a request in the engine
include "core/state/calls.pyx"            # a statement in flight
include "core/state/limits.pyx"           # holds and limits of statements
include "core/state/names.pyx"            # queues, partitions, consumer groups
include "core/state/ready.pyx"            # ready cursors and waiters
include "core/state/push.pyx"             # items on their way into the log
include "core/state/pop.pyx"              # pops and their statements
include "core/state/settle.pyx"           # acknowledgments, transactions, leases
include "core/state/feed.pyx"             # streams of messages to clients
include "core/state/net.pyx"              # connections and requests
include "core/state/workers.pyx"          # threads
include "core/state/service.pyx"          # service of the engine for sockets
include "core/state/engine.pyx"           # the engine of one worker
include "core/state/peers.pyx"            # notices between daemons

# Requests and responses of the hot routes. In: a request's bytes. Out: state/requests; bytes of a response. No I/O, no
# lock.
include "core/route/common.pyx"           # names, ids, refusals
include "core/route/stray.pyx"            # suggestions for mistyped names
include "core/route/moment.pyx"           # moments in text form
include "core/route/pushrun.pyx"          # runs: many records handled as one item
include "core/route/pushdue.pyx"          # delivery times of items
include "core/route/tracecontext.pyx"     # trace context of a record
include "core/route/pushkey.pyx"          # ids derived from an Idempotency-Key
include "core/route/push.pyx"             # items as JSON
include "core/route/pushframes.pyx"       # items in frames of the 2.x client
include "core/route/pushlines.pyx"        # items as lines
include "core/route/pusharrow.pyx"        # items as rows
include "core/route/eventvalue.pyx"       # attribute values of a CloudEvent
include "core/route/event.pyx"            # a CloudEvent as an item
include "core/route/events.pyx"           # items as CloudEvents
include "core/route/pushreply.pyx"        # results of a push
include "core/route/eventsout.pyx"        # messages as CloudEvents
include "core/route/pop.pyx"              # parameters of a pop
include "core/route/popreply.pyx"         # response of a pop
include "core/route/popframes.pyx"        # response in frames of the 2.x client
include "core/route/feed.pyx"             # parameters of a stream
include "core/route/feedout.pyx"          # messages of a stream
include "core/route/ack.pyx"              # acknowledgments and their results
include "core/route/transaction.pyx"      # operations of a transaction
include "core/route/txreply.pyx"          # results of a transaction
include "core/route/txframes.pyx"         # results in frames of the 2.x client
include "core/route/cycle.pyx"            # a stream cycle and its result
include "core/route/cyclestate.pyx"       # state operations of a cycle
include "core/route/cyclepush.pyx"        # pushes of a cycle
include "core/route/lease.pyx"            # lease extension

# Files of the failover buffer. In: records. Out: records in order, any number of times. Owner: the first worker.
include "core/spool/record.pyx"           # a record of the buffer, in bytes
include "core/spool/file.pyx"             # a file of records
include "core/spool/spool.pyx"            # the buffer's contents
include "core/spool/recover.pyx"           # files of earlier runs

# Sockets, threads, budgets. In: connections. Out: complete requests, to `service`; responses, to the kernel. Owns
# connections and requests (each its worker's). Locks: an inbox's, the last of all locks.
include "core/net/inbox.pyx"              # messages between threads
include "core/net/routine.pyx"            # threads with a periodic task
include "core/net/budget.pyx"             # budget of all clients
include "core/net/requestlog.pyx"         # request log
include "core/net/spans.pyx"              # trace spans
include "core/net/request.pyx"            # a request from its first byte to its answer
include "core/net/reply.pyx"              # builds responses
include "core/net/site.pyx"               # origins of pages that may ask
include "core/net/connection.pyx"         # opens, reads, closes connections
include "core/net/held.pyx"               # budget of requests in hand
include "core/net/trim.pyx"               # returns memory when load falls
include "core/net/arriving.pyx"           # budget of incomplete requests
include "core/net/leaving.pyx"            # clients that hang up
include "core/net/untaken.pyx"            # budget of unsent answers
include "core/net/writing.pyx"            # writes to sockets
include "core/net/worker.pyx"             # a worker's thread and loop; turns
include "core/net/beside.pyx"             # large bodies, read off the loop
include "core/net/unpack.pyx"             # unpacks gzip and zstd bodies
include "core/net/listener.pyx"           # accepts connections
include "core/net/watch.pyx"              # watchdog
include "core/net/process.pyx"            # all workers together

# Bridge to the control plane. In: requests without a hot route. Out: their responses. Owns a queue. Locks: the queue's
# own.
include "core/bridge/bridge.pyx"          # the bridge and its queue

# Authorization. In: a request's token. Out: its grant, or a refusal. Owns the table of grants. Locks: grants.lock.
include "core/auth/grant.pyx"             # grants of verified tokens
include "core/auth/ticket.pyx"            # tickets for a single stream of a page
include "core/auth/gate.pyx"              # authorization of hot routes

# Notices between daemons of one database. In: bytes; commits. Out: partitions to look at; packets to send. No I/O. Owns
# the waiting notices. Locks: told.lock, above an inbox's.
include "core/notice/packet.pyx"          # reads and writes a packet
include "core/notice/senders.pyx"         # senders, and duplicates of their packets
include "core/notice/told.pyx"            # notices that wait to leave

# Batching and limits: when a statement leaves, and how many are in flight. In: lists of jobs, durations of calls. Out:
# yes, or when to look again. Owns the lists of a worker; moves jobs between states.
include "core/govern/job.pyx"             # a request in the engine
include "core/govern/limit.pyx"           # limit of concurrent statements per type
include "core/govern/hold.pyx"            # linger: how long jobs wait for others
include "core/govern/call.pyx"            # a statement from its first parameter to its end

# Known names and ids of this process. In: rows of look-ups. Out: queues, partitions, groups. Owns the catalog. Locks:
# catalog.lock.
include "core/names/catalog.pyx"          # queues, partitions, groups by name and id
include "core/names/size.pyx"             # sizes of bounded queues
include "core/names/stale.pyx"            # notes that the catalog is out of date

# Caches: newest rows, ids, leases. Hints, bounded in bytes. Locks: book.lock; for ids idsets.lock.
include "core/memory/autopilot.pyx"       # batch size of pops without one
include "core/memory/unacked.pyx"         # delivered, unacknowledged messages
include "core/memory/fed.pyx"             # leases held by feeds
include "core/memory/rowcache.pyx"        # cache of the newest rows
include "core/memory/idset.pyx"           # remembered ids of partitions
include "core/memory/idbatch.pyx"         # remembered ids of a batch

# Deliverable messages and the pops that wait for them. In: commits, claims, lease expiry. Out: candidates, and waiters
# to try again. Owns the book. Locks: book.lock, below catalog.lock, above an inbox's.
include "core/ready/wake.pyx"             # wakes parked pops
include "core/ready/rates.pyx"            # tokens of rates over all partitions
include "core/ready/scans.pyx"            # groups that need a scan
include "core/ready/unused.pyx"           # groups without recent pops
include "core/ready/book.pyx"             # ready cursors and waiters
include "core/ready/others.pyx"           # effects of other daemons
include "core/ready/byname.pyx"           # pops that wait for a name
include "core/ready/awaited.pyx"          # when groups first asked for missing queues
include "core/ready/tallies.pyx"          # counters per queue

# Look-ups in the database. In: missing names, commits of other daemons. Out: the catalog, the book. Owns a round of
# look-ups, the looks of a worker, and the removal of deleted catalog entries.
include "core/find/ask.pyx"               # statements of look-ups, by kind
include "core/find/lookup.pyx"            # resolves names, in rounds
include "core/find/bounds.pyx"            # bounds on new names
include "core/find/discover.pyx"          # finds work of other daemons
include "core/find/recent.pyx"            # records stored since the last look
include "core/find/rates.pyx"             # takes tokens from the database
include "core/find/leases.pyx"            # leases that ended elsewhere
include "core/find/bury.pyx"              # reloads the catalog, removes deleted entries
include "core/find/grave.pyx"             # frees deleted entries

# Pops. In: a query. Out: leased messages. Owns a pop from its request to its answer.
include "core/deliver/pause.pyx"          # paused pops
include "core/deliver/popany.pyx"         # selects among several queues
include "core/deliver/popmachine.pyx"     # a pop, state by state
include "core/deliver/popend.pyx"         # ends a pop without messages
include "core/deliver/delivery.pyx"       # messages of an answer, in every format
include "core/deliver/popcall.pyx"        # one statement for many pops
include "core/deliver/poprows.pyx"        # rows of that statement
include "core/deliver/release.pyx"        # releases leases
include "core/deliver/takeback.pyx"       # takes back messages consumed for a client that left

# Appends items to the log. In: items. Out: offsets, once committed. Owns the push streams (each its worker's).
include "core/push/batch.pyx"             # gathers parts of requests by partition
include "core/push/pusher.pyx"            # fairness between pushing connections
include "core/push/runs.pyx"              # runs in a batch
include "core/push/heads.pyx"             # expected ends of partitions' logs
include "core/push/rows.pyx"              # a batch as rows of the log
include "core/push/split.pyx"             # bisects a refused batch
include "core/push/sealing.pyx"           # encrypted queues
include "core/push/capacity.pyx"          # capacity of bounded queues
include "core/push/handover.pyx"          # serves parked pops from the push
include "core/push/side.pyx"              # partitions that must load ids first
include "core/push/results.pyx"           # distributes the results of a statement
include "core/push/compare.pyx"           # compares ids with rows of the log
include "core/push/stream.pyx"            # push streams by lane
include "core/push/answer.pyx"            # answers a push request
include "core/push/push.pyx"              # a push request
include "core/push/evict.pyx"             # removes items from a batch, sends them home

# Settlement. In: acknowledgments, transactions, cycles, extensions. Out: moved cursors. Owns such a job until its
# answer.
include "core/settle/ack.pyx"             # acknowledgments
include "core/settle/ackcall.pyx"         # statement of acknowledgments
include "core/settle/ackleased.pyx"       # acknowledgments that need no look into the log
include "core/settle/claimcall.pyx"       # claims in memory, with acknowledgments that travel along
include "core/settle/spans.pyx"           # trace spans of settlements and cycles
include "core/settle/pushed.pyx"          # pushes of transactions and cycles
include "core/settle/transaction.pyx"     # acknowledgments and pushes, all or nothing
include "core/settle/txcall.pyx"          # statement of transactions
include "core/settle/cycle.pyx"           # stream cycles
include "core/settle/cycleargs.pyx"       # parameters of cycles
include "core/settle/cycleresult.pyx"     # results of cycles
include "core/settle/cyclecall.pyx"       # statements of cycles
include "core/settle/lease.pyx"           # extends and releases leases

# Streams of messages: consecutive pops for one request. In: a request, and a WebSocket's commands. Out: messages until
# the client leaves. Owns a feed from its request to its end.
include "core/feed/commandlog.pyx"        # log of commands
include "core/feed/credit.pyx"             # credit of a client
include "core/feed/socket.pyx"            # a stream over a WebSocket
include "core/feed/feedgrant.pyx"         # verifies the token of a stream again
include "core/feed/feed.pyx"              # a request with consecutive answers

# Pushes while the database is unavailable. In: jobs. Out: the same jobs, done; pushes of the buffered records. Owner:
# the first worker.
include "core/failover/spill.pyx"         # stores a push in the failover buffer
include "core/failover/refill.pyx"        # drains the failover buffer

# Exchange with other daemons over UDP. In: waiting notices, packets. Out: packets, cursors to try, looks. Owner: the
# first worker.
include "core/peer/leaving.pyx"           # sends notices
include "core/peer/heard.pyx"             # receives notices
include "core/peer/sockets.pyx"           # sockets and timers

# A worker's engine as a whole: turn, timer, start and end. In: `service`. Owns the Engine; fills in the pointers that
# rooms above call.
include "core/run/drain.pyx"              # work of a turn, and the next wake-up
include "core/run/kinds.pyx"              # tables of job types
include "core/run/engine.pyx"             # starts the engine, takes requests
include "core/run/reload.pyx"             # reloads an outdated catalog
include "core/run/forget.pyx"             # drops all knowledge of a replaced server
include "core/run/left.pyx"               # reports what a stop interrupts
include "core/run/stop.pyx"               # stops and closes
include "core/run/service.pyx"            # functions that rooms of sockets call

# What Python sees of the core, and seams for tests.
include "core/pg/refusal.pyx"             # reason of a refused connection, for Python
include "core/seal/python.pyx"            # encryption, for the control plane
include "core/record.pyx"                 # stored records, for the control plane
include "core/read/records.pyx"           # reads log rows as records, within a budget
include "core/read/events.pyx"            # records as CloudEvents
include "core/read/lines.pyx"             # records as JSON
include "core/read/flatout.pyx"           # FlatBuffers, as an Arrow stream needs them
include "core/read/arrowout.pyx"          # records as an Arrow stream
include "core/read/read.pyx"              # reads the log for Python
include "core/read/search.pyx"            # searches payloads
include "core/peer/python.pyx"            # peers, for the control plane
include "core/merge.pyx"                  # merges rows of the log
include "core/figures.pyx"               # statistics
include "core/core.pyx"                   # the data plane as Python sees it
include "core/probe/limit.pyx"            # test seams: limits, holds, autopilot
include "core/probe/log.pyx"              # test seams: log lines
include "core/probe/dbclock.pyx"          # test seams: the database's clock
include "core/probe/encode.pyx"           # test seams: binary parameters
include "core/probe/slot.pyx"             # test seams: the pg room
include "core/probe/memory.pyx"           # test seams: failing allocations
include "core/probe/json.pyx"             # test seams: the json room
include "core/probe/http.pyx"             # test seams: the http room
include "core/probe/grant.pyx"            # test seams: tokens
include "core/probe/route.pyx"            # test seams: hot routes
include "core/probe/batchrow.pyx"         # test seams: rows of the log
include "core/probe/bodypack.pyx"         # test seams: compressed rows
include "core/probe/seal.pyx"             # test seams: encryption
include "core/probe/spool.pyx"            # test seams: files of the failover buffer
include "core/probe/notice.pyx"           # test seams: notices
include "core/probe/count.pyx"            # test seams: instruction counts
