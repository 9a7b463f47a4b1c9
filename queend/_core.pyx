# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, embedsignature=True
"""The data plane of queend: from socket to socket without the interpreter.

This file is the map. Rooms stand in the order in which data passes them; each opens with what comes in, what goes out
and what it owns. A room uses only what stands above it (tests/check/test_rooms.py); upwards it calls through
pointers that state/ declares: Service (sockets to the engine), JobKind (what is done with a job), HotRoute and Drain
(rows of run/jobtypes), FailoverHooks (the failover buffer).
"""
# Base: memory, time and tables for every room. Owns the estimate of the database's clock, the epoch and the log's lock.
include "core/base/base.pxi"              # C declarations for every room
include "core/base/memory.pyx"            # allocations, settings of the allocator, scratch memory
include "core/base/slice.pyx"             # borrowed bytes, and numbers in them
include "core/base/buffer.pyx"            # owned, growable bytes
include "core/base/arena.pyx"             # memory of one request
include "core/base/unzip.pyx"             # unpacks zstd frames, and streams of gzip and zstd
include "core/base/clock.pyx"             # wall and monotonic time, the database's clock
include "core/base/uuid.pyx"              # UUIDs: generated, parsed, formatted, derived
include "core/base/table.pyx"             # hash table of pointers
include "core/base/heap.pyx"              # heap of due times
include "core/base/epoch.pyx"             # reclamation epochs: when deleted entries may be freed
include "core/base/refuse.pyx"            # the error of a refused request
include "core/base/counter.pyx"           # counters
include "core/base/log.pyx"               # log lines

# JSON, validated and sliced in place. In: bytes. Out: slices of them.
include "core/json/text.pyx"              # string literals, UTF-8
include "core/json/json.pyx"              # a JSON body: validated, walked, refused
include "core/json/scalar.pyx"            # strings and numbers
include "core/json/member.pyx"            # members of an object, by name

# HTTP/1.1 as text, without sockets. In: bytes. Out: request heads and fields; response heads.
include "core/http/head.pyx"              # request head
include "core/http/header.pyx"            # header fields
include "core/http/chunked.pyx"           # chunked body
include "core/http/uri.pyx"               # query and percent-decoding
include "core/http/response.pyx"          # response head, an error as problem+json

# Payloads of encrypted queues. In: a payload and a queue's name. Out: an envelope, and back. Owns the key ring.
include "core/seal/seal.pyx"              # encrypts and decrypts payloads; the key ring

# Arrow streams read in place. In: a body. Out: columns.
include "core/arrow/flat.pyx"             # FlatBuffers, read in place
include "core/arrow/column.pyx"           # columns of a record batch, and the schema
include "core/arrow/arrow.pyx"            # an Arrow stream, batch by batch

# PostgreSQL on the loop. In: statements and their parameters. Out: results, and the class of an error. Owns connections
# (each its worker's) and the server's incarnation. Locks: incarnation.lock, the first of all locks.
include "core/pg/pgarray.pyx"             # binary parameters
include "core/pg/pg.pyx"                  # binary results
include "core/pg/sqlstate.pyx"            # SQLSTATEs: class of an error and the reaction
include "core/pg/statements.pyx"          # statements of the hot path
include "core/pg/args.pyx"                # their parameters, by name
include "core/pg/address.pyx"             # host names and addresses of the server
include "core/pg/incarnation.pyx"         # identity of the server
include "core/pg/health.pyx"              # health of the database, edition of its functions, refused connections
include "core/pg/slot.pyx"                # one PostgreSQL connection on the loop
include "core/pg/slotpool.pyx"            # a worker's slots, and how they connect
include "core/pg/batchrow.pyx"            # a row of the log, sliced and compressed; fields besides the payload

# Structs, enums and constants used by several files. Fields say what they mean, who writes them and which lock guards
# them.
include "core/state/settings.pyx"         # settings of the operator
include "core/state/kvtypes.pyx"          # operations on keys and values
include "core/state/timertypes.pyx"       # operations on timers
include "core/state/reqs.pyx"             # contents of a request, grant of a token
include "core/state/joblist.pyx"          # a request in the engine
include "core/state/calltypes.pyx"        # a statement in flight, its linger and limit
include "core/state/links.pyx"            # linked lists
include "core/state/queues.pyx"           # queues, partitions, groups, cursors
include "core/state/pushtypes.pyx"        # items on their way into the log
include "core/state/popjob.pyx"           # pops, and streams of messages to clients
include "core/state/ephtypes.pyx"         # ephemeral queues
include "core/state/settletypes.pyx"      # acknowledgments, transactions, leases
include "core/state/nettypes.pyx"         # connections and requests
include "core/state/workertypes.pyx"      # threads, and the engine as sockets see it
include "core/state/enginetypes.pyx"      # the engine of one worker

# Requests and responses of the hot routes. In: a request's bytes. Out: state/reqs; bytes of a response. Does
# no I/O and takes no lock.
include "core/route/ident.pyx"            # names, ids, refusals
include "core/route/typos.pyx"            # suggestions for mistyped names
include "core/route/time.pyx"             # moments in text form
include "core/route/pushrun.pyx"          # runs: many records handled as one item
include "core/route/trace.pyx"            # trace context of a record
include "core/route/itemheaders.pyx"      # headers of an item
include "core/route/frames.pyx"           # items in frames of the 2.x client
include "core/route/pushitems.pyx"        # items as JSON and as lines, their delivery times
include "core/route/pusharrow.pyx"        # items as rows
include "core/route/eventform.pyx"        # values of a CloudEvent, messages as CloudEvents
include "core/route/eventitem.pyx"        # CloudEvents as items
include "core/route/pushreply.pyx"        # results of a push
include "core/route/popquery.pyx"         # parameters of a pop or a stream
include "core/route/popreply.pyx"         # response of a pop, as JSON or frames; messages of a stream
include "core/route/ackbody.pyx"          # acknowledgments and their results
include "core/route/kvbody.pyx"           # operations on keys and values
include "core/route/kvpath.pyx"           # one on the key of a path
include "core/route/kvreply.pyx"          # their results
include "core/route/lockbody.pyx"         # operations on locks, and their results
include "core/route/timerbody.pyx"        # operations on timers, and their results
include "core/route/txbody.pyx"           # operations of a transaction and their results
include "core/route/cyclebody.pyx"        # a stream cycle and its result
include "core/route/leasebody.pyx"        # lease extension
include "core/route/ephbody.pyx"          # requests for ephemeral queues

# Files of the failover buffer. In: records. Out: records in order, any number of times. Owner: the first worker.
include "core/spool/segment.pyx"          # a file of records, also of earlier runs
include "core/spool/spool.pyx"            # the buffer's contents, a record in bytes

# Sockets, threads, budgets. In: connections. Out: complete requests, to `service`; responses, to the kernel. Owns
# connections and requests (each its worker's). Locks: an inbox's, the last of all locks.
include "core/net/thread.pyx"             # messages between threads, periodic threads
include "core/net/budget.pyx"             # budgets: clients, incomplete requests, unsent answers
include "core/net/requestlog.pyx"         # request log
include "core/net/spans.pyx"              # trace spans
include "core/net/request.pyx"            # a request from its first byte to its answer
include "core/net/reply.pyx"              # builds responses
include "core/net/origin.pyx"             # origins of pages that may ask
include "core/net/tlscontext.pyx"         # certificate and rules of TLS
include "core/net/tls.pyx"                # a connection's session: handshake, decryption, identity
include "core/net/tlswrite.pyx"           # encrypts answers
include "core/net/connection.pyx"         # opens, reads, closes connections; clients that hang up
include "core/net/held.pyx"               # budget of requests in hand, memory given back
include "core/net/output.pyx"             # writes to sockets
include "core/net/worker.pyx"             # a worker's thread and loop, turns
include "core/net/offload.pyx"            # large bodies, read off the loop
include "core/net/unpack.pyx"             # unpacks gzip and zstd bodies
include "core/net/listener.pyx"           # accepts connections
include "core/net/watchdog.pyx"           # watchdog
include "core/net/process.pyx"            # all workers together

# Bridge to the control plane. In: requests without a hot route. Out: their responses. Owns a queue. Locks: the queue's
# own.
include "core/bridge/bridge.pyx"          # the bridge and its queue

# Authorization. In: a request's token. Out: its grant, or a refusal. Owns the table of grants. Locks: grants.lock.
include "core/auth/grants.pyx"            # grants of verified tokens, tickets of streams
include "core/auth/gate.pyx"              # authorization of hot routes

# Notices between daemons of one database. In: bytes; commits. Out: partitions to look at; packets to send. No I/O. Owns
# the waiting notices. Locks: outbox.lock, above an inbox's.
include "core/notice/notice.pyx"          # packets, their senders and duplicates; notices that wait to leave

# Batching and limits: when a statement leaves, and how many are in flight. In: lists of jobs, durations of calls. Out:
# yes, or when to look again. Owns the lists of a worker; moves jobs between states.
include "core/govern/jobs.pyx"            # a request in the engine
include "core/govern/limit.pyx"           # limit of concurrent statements per type
include "core/govern/linger.pyx"          # linger: how long jobs wait for others
include "core/govern/call.pyx"            # a statement from its first parameter to its end

# Known names and ids of this process. In: rows of look-ups. Out: queues, partitions, groups. Owns the catalog. Locks:
# catalog.lock.
include "core/names/catalog.pyx"          # queues, partitions, groups by name and id

# Caches: newest rows, ids, leases. Hints, bounded in bytes. Locks: book.lock; for ids idsets.lock.
include "core/memory/autopilot.pyx"       # batch size of pops without one
include "core/memory/unacked.pyx"         # delivered, unacknowledged messages
include "core/memory/rowcache.pyx"        # cache of the newest rows
include "core/memory/idset.pyx"           # remembered ids of partitions

# Deliverable messages and the pops that wait for them. In: commits, claims, lease expiry. Out: candidates, and waiters
# to try again. Owns the book. Locks: book.lock, below catalog.lock, above an inbox's.
include "core/ready/waiters.pyx"          # parks and wakes pops, also those that wait by name
include "core/ready/rates.pyx"            # tokens of rates over all partitions, taken from the database
include "core/ready/groups.pyx"           # groups that need a scan, or are unused
include "core/ready/index.pyx"            # ready cursors and waiters
include "core/ready/cursor.pyx"           # states of cursors

# Look-ups in the database. In: missing names, commits of other daemons. Out: the catalog, the book. Owns a round of
# look-ups, the looks of a worker, and the removal of deleted catalog entries.
include "core/find/ask.pyx"               # statements of look-ups by kind, refused names
include "core/find/lookup.pyx"            # resolves names, in rounds
include "core/find/poll.pyx"              # finds commits of other daemons
include "core/find/scanner.pyx"           # scans groups for messages not consumed yet, leases for early ends
include "core/find/retire.pyx"            # reloads the catalog, removes deleted entries
include "core/find/reclaim.pyx"           # frees deleted entries

# Pops. In: a query. Out: leased messages. Owns a pop from its request to its answer.
include "core/deliver/claim.pyx"          # claims: made, booked, undone, released
include "core/deliver/popend.pyx"         # ends a pop without messages, paused pops
include "core/deliver/pop.pyx"            # a pop, state by state; the choice among several queues
include "core/deliver/delivery.pyx"       # messages of an answer, in every format
include "core/deliver/popcall.pyx"        # one statement for many pops, and its rows

# Appends items to the log. In: items. Out: offsets, once committed. Owns the push streams (each its worker's).
include "core/push/batch.pyx"             # gathers parts of requests by partition
include "core/push/pushers.pyx"           # fairness between pushing connections
include "core/push/runitem.pyx"           # runs in a batch
include "core/push/logend.pyx"            # expected ends of partitions' logs
include "core/push/rows.pyx"              # a batch as rows of the log
include "core/push/requeue.pyx"           # what of a batch is sent once more
include "core/push/spread.pyx"            # queues without order
include "core/push/sealing.pyx"           # encrypted queues
include "core/push/capacity.pyx"          # capacity of bounded queues
include "core/push/handover.pyx"          # serves parked pops from the push
include "core/push/idloader.pyx"          # partitions that must load ids first
include "core/push/results.pyx"           # distributes the results of a statement
include "core/push/appender.pyx"          # push streams by lane
include "core/push/push.pyx"              # a push request, from submission to answer

# Keys and values, timers. In: requests. Out: their results. Owns such a job until its answer.
include "core/kv/kvargs.pyx"              # parameters and rows of their statements
include "core/kv/kv.pyx"                  # a request, and one statement for many
include "core/kv/locks.pyx"               # locks and semaphores
include "core/kv/timerbell.pyx"           # wakes the service that fires timers
include "core/kv/timers.pyx"              # timers

# Ephemeral queues. In: requests. Out: their answers, without the database. Owns the queues. Locks: that of a stripe of
# them, above an inbox's alone.
include "core/ephemeral/ring.pyx"         # messages, cursors and leases of a queue
include "core/ephemeral/stripe.pyx"       # queues by name, their locks, bounds and ends
include "core/ephemeral/ringreply.pyx"    # figures of a queue
include "core/ephemeral/ephjob.pyx"       # pushes, pops, acknowledgments
include "core/ephemeral/ephcontrol.pyx"   # options, resets and figures for the control plane

# Settlement. In: acknowledgments, transactions, cycles, extensions. Out: moved cursors. Owns such a job until its
# answer.
include "core/settle/ack.pyx"             # acknowledgments, and their statement
include "core/settle/leasedack.pyx"       # acknowledgments that need no look into the log
include "core/settle/claimcall.pyx"       # claims in memory, with acknowledgments that travel along
include "core/settle/transaction.pyx"     # acknowledgments and pushes, all or nothing
include "core/settle/txcall.pyx"          # statement of transactions
include "core/settle/cycle.pyx"           # stream cycles and their results
include "core/settle/cyclecall.pyx"       # statements of cycles
include "core/settle/lease.pyx"           # extends and releases leases

# Streams of messages: consecutive pops for one request. In: a request, and a WebSocket's commands. Out: messages until
# the client leaves. Owns a feed from its request to its end.
include "core/feed/feed.pyx"              # a request with consecutive answers
include "core/feed/websocket.pyx"         # a stream over a WebSocket

# Pushes while the database is unavailable. In: jobs. Out: the same jobs, done; pushes of the buffered records. Owner:
# the first worker.
include "core/failover/spill.pyx"         # stores a push in the failover buffer
include "core/failover/refill.pyx"        # drains the failover buffer

# Exchange with other daemons over UDP. In: waiting notices, packets. Out: packets, cursors to try, looks. Owner: the
# first worker.
include "core/peer/peers.pyx"             # sends and receives notices

# A worker's engine as a whole: turn, timer, start and end. In: `service`. Owns the Engine; fills in the pointers that
# rooms above call.
include "core/run/drain.pyx"              # work of a turn, and the next wake-up
include "core/run/jobtypes.pyx"           # tables of job types
include "core/run/engine.pyx"             # starts and stops the engine, takes requests
include "core/run/reload.pyx"             # reloads the catalog, forgets a replaced server
include "core/run/stopreport.pyx"         # reports what a stop interrupts

# The core as Python sees it, and seams for tests.
include "core/logrecord.pyx"              # stored records, for the control plane
include "core/read/readentry.pyx"         # records of a read as JSON, lines, CloudEvents
include "core/read/ipc.pyx"               # records as an Arrow stream
include "core/read/read.pyx"              # reads and searches the log for Python
include "core/peer/peerapi.pyx"           # peers, for the control plane
include "core/stats.pyx"                  # statistics
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
include "core/probe/spread.pyx"           # test seams: queues without order
include "core/probe/notice.pyx"           # test seams: notices
include "core/probe/count.pyx"            # test seams: instruction counts
include "core/probe/idle.pyx"             # test seams: unused ephemeral queues
