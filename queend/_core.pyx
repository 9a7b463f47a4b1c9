# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, embedsignature=True
"""The data plane of queend: from socket to socket without the interpreter.

This file is the map. Rooms stand in the order in which data passes them; each opens with what comes in, what goes out
and what it owns. A room uses only what stands above it (tests/check/test_rooms.py); upwards it calls through
pointers that state/ declares: Service (sockets to the engine), JobKind (what is done with a job), HotRoute and Drain
(rows of run/kinds), Elsewhere (the failover buffer).
"""
# What every room uses: memory, time, tables. Owns nothing.
include "core/base/base.pxi"              # C names every room uses
include "core/base/word.pyx"              # numbers in bytes
include "core/base/slice.pyx"             # borrowed bytes
include "core/base/buffer.pyx"            # owned, growable bytes
include "core/base/memory.pyx"            # what the allocator keeps
include "core/base/arena.pyx"             # one request's memory
include "core/base/scratch.pyx"           # memory for one thing after another
include "core/base/unzip.pyx"             # a zstd frame unpacked
include "core/base/coding.pyx"            # gzip or zstd of any size, piece by piece
include "core/base/clock.pyx"             # wall and monotonic time
include "core/base/uuid.pyx"              # ids: made, parsed, spelled, computed
include "core/base/table.pyx"             # hash table of pointers
include "core/base/heap.pyx"              # due times
include "core/base/era.pyx"               # when what was deleted may be freed
include "core/base/error.pyx"             # a refusal
include "core/base/counter.pyx"           # what is counted
include "core/base/log.pyx"               # one line for operators

# JSON checked and cut in place. In: bytes. Out: slices of them.
include "core/json/utf8.pyx"              # well-formed texts
include "core/json/scan.pyx"              # JSON validated in place
include "core/json/token.pyx"             # its strings and numbers
include "core/json/values.pyx"            # how many there are
include "core/json/text.pyx"              # string literals read and written
include "core/json/member.pyx"            # members of an object, by name
include "core/json/body.pyx"              # a body that is JSON, or is refused

# HTTP/1.1 as text, without sockets. In: bytes. Out: heads and fields; heads of answers.
include "core/http/parse.pyx"             # a request's head
include "core/http/known.pyx"             # what its fields say
include "core/http/chunked.pyx"           # a body in chunks
include "core/http/field.pyx"             # one of its fields
include "core/http/query.pyx"             # its query, and what is percent-encoded
include "core/http/head.pyx"              # an answer's head
include "core/http/problem.pyx"           # an error as a problem

# Payloads of encrypted queues. In: a payload and a queue's name. Out: an envelope, and back. Owns the ring of keys.
include "core/seal/ring.pyx"              # the keys of encrypted queues
include "core/seal/seal.pyx"              # payloads sealed and opened

# Arrow streams read in place. In: a body. Out: columns.
include "core/arrow/flat.pyx"             # FlatBuffers read in place
include "core/arrow/column.pyx"           # a column of a record batch
include "core/arrow/schema.pyx"           # which columns there are
include "core/arrow/reader.pyx"           # an Arrow stream, batch by batch

# PostgreSQL on the loop. In: statements and their parameters. Out: results, and what an error means. Owns connections
# (each its worker's) and which server this is (incarnation.lock, the first of all locks).
include "core/pg/encode.pyx"              # binary parameters
include "core/pg/decode.pyx"              # binary results
include "core/pg/dbclock.pyx"             # what the database's clock shows
include "core/pg/verdict.pyx"             # what an error means, and what is done
include "core/pg/statement.pyx"           # the statements of the hot path
include "core/pg/args.pyx"                # its parameters, by name
include "core/pg/address.pyx"             # where the server is
include "core/pg/incarnation.pyx"         # which life of which server it is
include "core/pg/edition.pyx"             # do its functions serve us?
include "core/pg/doubt.pyx"               # what is wrong with it
include "core/pg/slot.pyx"                # one PostgreSQL connection on the loop
include "core/pg/serve.pyx"               # a statement on it
include "core/pg/dial.pyx"                # how it gets connected
include "core/pg/pool.pyx"                # a worker's connections
include "core/pg/extras.pyx"              # what a record has besides its payload
include "core/pg/batchrow.pyx"            # a row of the log, sliced
include "core/pg/bodypack.pyx"            # its payloads, made smaller

# Every struct, enum and constant that several files use: what each field means, who writes it, which lock guards it.
include "core/state/settings.pyx"         # what the operator set
include "core/state/requests.pyx"         # what a request asks for
include "core/state/grants.pyx"           # what a token allows
include "core/state/jobs.pyx"             # a request on its way through the engine
include "core/state/calls.pyx"            # a statement on its way
include "core/state/limits.pyx"           # when statements leave, and how many fly
include "core/state/names.pyx"            # queues, partitions, consumer groups
include "core/state/ready.pyx"            # what is ready, and who waits
include "core/state/push.pyx"             # items on their way into the log
include "core/state/pop.pyx"              # pops, and the statements that serve them
include "core/state/settle.pyx"           # acknowledgments, transactions, leases
include "core/state/feed.pyx"             # streams of messages to clients
include "core/state/net.pyx"              # connections and requests
include "core/state/workers.pyx"          # threads
include "core/state/service.pyx"          # what sockets call of the engine
include "core/state/engine.pyx"           # the engine of one worker
include "core/state/peers.pyx"            # what daemons tell each other

# What a request asks for, and how it is answered. In: a request's bytes. Out: state/requests; bytes of an answer. No
# I/O, no lock.
include "core/route/common.pyx"           # names, ids, refusals
include "core/route/stray.pyx"            # names that were meant to be others
include "core/route/moment.pyx"           # a time as people write it
include "core/route/pushrun.pyx"          # records that go through the engine as one, items joined
include "core/route/pushdue.pyx"          # when their items may be delivered
include "core/route/tracecontext.pyx"     # which trace a record belongs to
include "core/route/pushkey.pyx"          # ids a repeated push has again
include "core/route/push.pyx"             # items as JSON
include "core/route/pushframes.pyx"       # items as the 2.x client frames them
include "core/route/pushlines.pyx"        # items as lines
include "core/route/pusharrow.pyx"        # items as rows
include "core/route/eventvalue.pyx"       # what attributes of a CloudEvent may be
include "core/route/event.pyx"            # one becomes an item
include "core/route/events.pyx"           # items as CloudEvents
include "core/route/pushreply.pyx"        # their results
include "core/route/eventsout.pyx"        # messages as CloudEvents
include "core/route/pop.pyx"              # what a pop asks for
include "core/route/popreply.pyx"         # its answer
include "core/route/popframes.pyx"        # the same as the 2.x client frames them
include "core/route/feed.pyx"             # a stream of messages asked for
include "core/route/feedout.pyx"          # and written
include "core/route/ack.pyx"              # acknowledgments in, results out
include "core/route/transaction.pyx"      # operations in
include "core/route/txreply.pyx"          # their results
include "core/route/txframes.pyx"         # the same as the 2.x client frames them
include "core/route/cycle.pyx"            # a cycle of a stream in, results out
include "core/route/cyclestate.pyx"       # what it does to the state
include "core/route/cyclepush.pyx"        # what it pushes
include "core/route/lease.pyx"            # an extension

# The files of the failover buffer. In: records. Out: records, in order, as often as asked. Owned by the first worker.
include "core/spool/record.pyx"           # a message of the failover buffer, in bytes
include "core/spool/file.pyx"             # and on the disk
include "core/spool/spool.pyx"            # what is in it
include "core/spool/recover.pyx"           # what earlier runs left

# Sockets, threads, budgets. In: connections. Out: complete requests, to `service`; answers, to the kernel. Owns
# connections and requests (each its worker's). Its last lock is an inbox's.
include "core/net/inbox.pyx"              # messages between threads
include "core/net/routine.pyx"            # threads that do something every so often
include "core/net/budget.pyx"             # how much all clients together may hold
include "core/net/requestlog.pyx"         # a line per answer, if that is wanted
include "core/net/spans.pyx"              # spans of traces, if they are wanted
include "core/net/request.pyx"            # bytes in: requests, until they are answered
include "core/net/reply.pyx"              # their answers, made
include "core/net/site.pyx"               # which pages may ask
include "core/net/connection.pyx"         # opened, read, closed
include "core/net/held.pyx"               # requests in hand, within their budget
include "core/net/trim.pyx"               # memory given back when they are fewer
include "core/net/arriving.pyx"           # what is incomplete, within its budget
include "core/net/leaving.pyx"            # clients that leave
include "core/net/untaken.pyx"            # answers that are not taken, within theirs
include "core/net/writing.pyx"            # answers: bytes out
include "core/net/worker.pyx"             # a thread and its loop; whose turn it is
include "core/net/beside.pyx"             # large bodies, read beside the loop
include "core/net/unpack.pyx"             # bodies in gzip or zstd
include "core/net/listener.pyx"           # where connections come from
include "core/net/watch.pyx"              # does everybody turn?
include "core/net/process.pyx"            # all workers together

# To the control plane and back. In: requests that no hot route takes. Out: their answers. Owns a queue under its own
# lock.
include "core/bridge/bridge.pyx"          # to the control plane and back

# Who may. In: a request's token. Out: its grant, or a refusal. Owns the table of grants (grants.lock).
include "core/auth/grant.pyx"             # what a verified token allows
include "core/auth/ticket.pyx"            # for one stream of a page
include "core/auth/gate.pyx"              # who may use a hot route

# What daemons of one database tell each other. In: bytes; commits. Out: what to look at; what is to leave. Without I/O.
# Owns what was told (told.lock, above an inbox).
include "core/notice/packet.pyx"          # a packet, written and read
include "core/notice/senders.pyx"         # who sent it, and whether it was had before
include "core/notice/told.pyx"            # what is to be told, until it leaves

# When a statement leaves, and how many fly. In: lists of jobs, and how long calls took. Out: yes, or when to look
# again. Owns the lists of a worker; moves jobs from state to state.
include "core/govern/job.pyx"             # a request on its way through the engine
include "core/govern/limit.pyx"           # how many statements of a type fly
include "core/govern/hold.pyx"            # when waiting jobs become a statement
include "core/govern/call.pyx"            # a statement from its first parameter to its end

# What this process knows by name and id. In: rows of look-ups. Out: queues, partitions, groups. Owns the catalog
# (catalog.lock).
include "core/names/catalog.pyx"          # queues, partitions, groups by name and id
include "core/names/size.pyx"             # what queues with a bound hold
include "core/names/stale.pyx"            # that it is out of date

# What was seen and may be of use again: newest rows, ids, leases. Hints, within bounds of bytes. Guarded by book.lock,
# ids by idsets.lock.
include "core/memory/autopilot.pyx"       # how much a pop takes that does not say so
include "core/memory/unacked.pyx"         # what is delivered and not acknowledged
include "core/memory/fed.pyx"             # what of it is out to feeds
include "core/memory/rowcache.pyx"        # the newest rows, in memory
include "core/memory/idset.pyx"           # ids of partitions, remembered
include "core/memory/idbatch.pyx"         # what batches ask and teach them

# Who has something to deliver, who waits for it. In: commits, claims, ends of leases. Out: candidates, and waiters to
# be tried again. Owns the book (book.lock, below catalog.lock, above an inbox).
include "core/ready/wake.pyx"             # parked pops to be tried again
include "core/ready/rates.pyx"            # tokens of rates over all partitions
include "core/ready/scans.pyx"            # groups to be looked through
include "core/ready/unused.pyx"           # groups that nobody asks for any more
include "core/ready/book.pyx"             # what is ready, and who waits
include "core/ready/others.pyx"           # what others did
include "core/ready/byname.pyx"           # pops that wait by name
include "core/ready/awaited.pyx"          # when groups first asked for what does not exist yet
include "core/ready/tallies.pyx"          # what each queue did, all of them

# What the database knows and this process does not. In: names that are missed, what others committed. Out: the catalog,
# the book. Owns a round of look-ups and the looks of a worker; burials in the catalog.
include "core/find/ask.pyx"               # what is asked of the database, by kind
include "core/find/lookup.pyx"            # names to ids, in rounds
include "core/find/bounds.pyx"            # names that may not be made
include "core/find/discover.pyx"          # work nobody told of
include "core/find/recent.pyx"            # what was stored since the last look
include "core/find/rates.pyx"             # tokens taken from the database
include "core/find/leases.pyx"            # leases that ended elsewhere
include "core/find/bury.pyx"              # the catalog taken anew, burials in it
include "core/find/grave.pyx"             # what was deleted, given back

# Pops. In: a query. Out: messages under a lease. Owns a pop from its request to its answer (pop_move).
include "core/deliver/pause.pyx"          # when pops find nothing because somebody said so
include "core/deliver/popany.pyx"         # which of several queues a pop is served from
include "core/deliver/popmachine.pyx"     # one pop, state by state
include "core/deliver/popend.pyx"         # its end without messages
include "core/deliver/delivery.pyx"       # the messages of an answer, in any form
include "core/deliver/popcall.pyx"        # many pops in one statement
include "core/deliver/poprows.pyx"        # what came of them
include "core/deliver/release.pyx"        # leases given back
include "core/deliver/takeback.pyx"       # consumed for nobody, taken back

# Items into the log. In: items. Out: offsets, once they are committed. Owns the push streams, each its worker's.
include "core/push/batch.pyx"             # parts of requests, gathered by partition
include "core/push/pusher.pyx"            # connections that push much take turns
include "core/push/runs.pyx"              # runs in a batch, and out of it
include "core/push/heads.pyx"             # where its partitions' logs end
include "core/push/rows.pyx"              # a batch as rows of the log
include "core/push/split.pyx"             # a batch in two
include "core/push/sealing.pyx"           # encrypted queues
include "core/push/capacity.pyx"          # room in queues with a bound
include "core/push/handover.pyx"          # parked pops served by the push itself
include "core/push/side.pyx"              # partitions whose ids must be loaded first
include "core/push/results.pyx"           # what was stored where, told
include "core/push/compare.pyx"           # ids that come again, among those of rows of the log
include "core/push/stream.pyx"            # push streams by lane
include "core/push/answer.pyx"            # the answer to a request
include "core/push/push.pyx"              # a push request
include "core/push/evict.pyx"             # items taken out of batches

# What consumers say. In: acknowledgments, transactions, cycles, extensions. Out: cursors moved. Owns such a job until
# its answer.
include "core/settle/ack.pyx"             # acknowledgments
include "core/settle/ackcall.pyx"         # their statement
include "core/settle/ackleased.pyx"       # those that need no look into the log
include "core/settle/claimcall.pyx"       # claims of pops in memory, acknowledgments beside them
include "core/settle/spans.pyx"           # of what they and cycles did
include "core/settle/pushed.pyx"          # what transactions and cycles push
include "core/settle/transaction.pyx"     # acknowledgments and pushes, all or nothing
include "core/settle/txcall.pyx"          # their statement
include "core/settle/cycle.pyx"           # cycles of streams
include "core/settle/cycleargs.pyx"       # parameters of their statements
include "core/settle/cycleresult.pyx"     # what came of them
include "core/settle/cyclecall.pyx"       # their statements
include "core/settle/lease.pyx"           # extended, given back

# Streams of messages: one pop after another for one request. In: a request, and what a WebSocket says. Out: messages
# until its client leaves. Owns a feed from its request to its end.
include "core/feed/commandlog.pyx"        # a line for each thing that is said there
include "core/feed/credit.pyx"             # how many messages its client may be given
include "core/feed/socket.pyx"            # a stream over a WebSocket
include "core/feed/feedgrant.pyx"         # the token of a stream, verified again
include "core/feed/feed.pyx"              # a request that is answered for as long as its client stays

# Pushes while the database is away. In: jobs. Out: the same, home again; pushes of what the buffer holds. Owned by the
# first worker.
include "core/failover/spill.pyx"         # a push that goes into the failover buffer
include "core/failover/refill.pyx"        # and out of it

# To other daemons and from them, over UDP. In: what was told, packets. Out: packets, cursors to be tried, looks. Owned
# by the first worker.
include "core/peer/leaving.pyx"           # what leaves, and when
include "core/peer/heard.pyx"             # what others say
include "core/peer/sockets.pyx"           # its sockets and timers

# One worker's engine as a whole: what is next, its timer, its start and end. In: `service`. Owns the Engine; fills in
# what rooms above call.
include "core/run/drain.pyx"              # what waits, and when to look again without being woken
include "core/run/kinds.pyx"              # the tables of job types
include "core/run/engine.pyx"             # its start, requests in
include "core/run/reload.pyx"             # a catalog out of date
include "core/run/forget.pyx"             # another server: nothing is remembered
include "core/run/left.pyx"               # what a stop cuts off
include "core/run/stop.pyx"               # stop and close
include "core/run/service.pyx"            # what the rooms of sockets call

# What Python sees of the core, and seams for tests.
include "core/pg/refusal.pyx"             # why a server refuses us, as Python sees it
include "core/seal/python.pyx"            # sealing, for the control plane
include "core/record.pyx"                 # stored records, for the control plane
include "core/read/records.pyx"           # log rows become records, within a budget
include "core/read/events.pyx"            # records as CloudEvents
include "core/read/lines.pyx"             # records as JSON
include "core/read/flatout.pyx"           # flatbuffers, as far as an Arrow stream needs them
include "core/read/arrowout.pyx"          # records as an Arrow stream
include "core/read/read.pyx"              # the log read as Python sees it
include "core/read/search.pyx"            # payloads searched
include "core/peer/python.pyx"            # peers, for the control plane
include "core/merge.pyx"                  # rows of the log made one
include "core/figures.pyx"               # what was counted
include "core/core.pyx"                   # the data plane as Python sees it
include "core/probe/limit.pyx"            # seams for the tests of limits, holds and the autopilot
include "core/probe/log.pyx"              # seams for the test of log lines
include "core/probe/dbclock.pyx"          # seams for the test of the database's clock
include "core/probe/encode.pyx"           # seams for the tests of binary parameters
include "core/probe/slot.pyx"             # seams for the tests of the pg room
include "core/probe/memory.pyx"           # seams for the test that lets allocations fail
include "core/probe/json.pyx"             # seams for the tests of the json room
include "core/probe/http.pyx"             # seams for the tests of the http room
include "core/probe/grant.pyx"            # seams for the tests of tokens
include "core/probe/route.pyx"            # seams for the tests of the hot routes
include "core/probe/batchrow.pyx"         # seams for the tests of rows of the log
include "core/probe/bodypack.pyx"         # seams for the tests of compressed rows
include "core/probe/seal.pyx"             # seams for the tests of sealing
include "core/probe/spool.pyx"            # seams for the tests of the failover buffer's files
include "core/probe/notice.pyx"           # seams for the tests of what daemons tell each other
include "core/probe/count.pyx"            # seams for the test of instruction counts
