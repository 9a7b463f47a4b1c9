/* floor DSN push SECONDS CONNECTIONS BATCH PARTITIONS ID_VERSION QUEUE   queend.push, BATCH messages at random over PARTITIONS a call
 * floor DSN copy SECONDS CONNECTIONS BATCH PARTITIONS ID_VERSION QUEUE   the same rows by COPY BINARY into a heap without index
 * floor DSN pop  SECONDS REQUESTS BUDGET LEASE QUEUE                     queend.pop, auto-acknowledged, or (LEASE = 1) with queend.ack
 * Closed loop: a connection's next call is built while the last one runs. Prints {"messages_per_s": ..., "calls": ...}. */
#define _GNU_SOURCE
#include "floor.h"
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

struct Load load; /* of the load generator, for its clock and payloads */
static const char *dsn;

void fatal(const char *format, ...) {
    va_list a;
    va_start(a, format);
    fputs("floor: ", stderr);
    vfprintf(stderr, format, a);
    fputc('\n', stderr);
    exit(1);
}

static PGresult *checked(PGconn *c, PGresult *res, ExecStatusType want) {
    if (PQresultStatus(res) != want) fatal("%s", PQerrorMessage(c));
    return res;
}

static PGconn *open_one(void) {
    char whole[1024];
    snprintf(whole, sizeof whole, "%s options='-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off -c enable_sort=off -c jit=off -c client_min_messages=warning'", dsn);
    PGconn *c = PQconnectdb(whole);
    if (PQstatus(c) != CONNECTION_OK) fatal("%s", PQerrorMessage(c));
    return c;
}

static void prepare(PGconn *c, const char *name, const char *text) {
    PQclear(checked(c, PQprepare(c, name, text, 0, NULL), PGRES_COMMAND_OK));
}

static Partitions resolve(PGconn *c, const char *queue, const char *n, int *queue_id) {
    const char *values[] = {queue, n};
    PGresult *res = checked(c, PQexecParams(c,
        "SELECT r.queue_id, r.partition_id FROM queend.resolve(array_fill($1::text, ARRAY[$2::int]),"
        " ARRAY(SELECT 'p' || lpad(g::text, 5, '0') FROM generate_series(0, $2::int - 1) g ORDER BY g)) r", 2, NULL, values, NULL, NULL, 0), PGRES_TUPLES_OK);
    Partitions p = {.n = PQntuples(res)};
    p.ids = malloc((size_t)p.n * sizeof *p.ids);
    for (int i = 0; i < p.n; i++) p.ids[i] = atoi(PQgetvalue(res, i, 1));
    *queue_id = atoi(PQgetvalue(res, 0, 0));
    qsort(p.ids, (size_t)p.n, sizeof *p.ids, partition_order);
    PQclear(res);
    return p;
}

static void send_call(PGconn *c, const char *name, Params *p) {
    if (!PQsendQueryPrepared(c, name, p->n, p->values, p->lengths, p->formats, 1)) fatal("%s", PQerrorMessage(c));
}

static PGresult *finish_call(PGconn *c) {
    PGresult *res = checked(c, PQgetResult(c), PGRES_TUPLES_OK), *more;
    while ((more = PQgetResult(c))) { checked(c, more, PGRES_TUPLES_OK); PQclear(more); }
    return res;
}

static void batch_swap(Batch *a, Batch *b) {
    Batch t = *a;
    *a = *b;
    *b = t;
}

static void floor_push(int64_t us, int n_conns, int batch, const char *partitions, int version, const char *queue) {
    struct { PGconn *c; Partitions own; Batch next, sent; } all[16];
    int queue_id;
    int64_t messages = 0, calls = 0, began, now;
    if (n_conns < 1 || n_conns > 16) fatal("1 to 16 connections");
    for (int i = 0; i < n_conns; i++) {
        all[i].c = open_one();
        prepare(all[i].c, "push", PUSH);
        Partitions p = resolve(all[i].c, queue, partitions, &queue_id), *own = &all[i].own;
        own->ids = p.ids;
        own->n = 0;
        for (int k = 0; k < p.n; k++) if ((p.ids[k] & 63) % n_conns == i) own->ids[own->n++] = p.ids[k];
        own->row_base = calloc((size_t)p.n, sizeof *own->row_base);
        memset(&all[i].next, 0, sizeof all[i].next);
        memset(&all[i].sent, 0, sizeof all[i].sent);
        if (!own->n) fatal("a connection has no partition");
        batch_build(&all[i].next, own, batch, version, NULL);
    }
    began = now = clock_of(CLOCK_MONOTONIC);
    struct pollfd polled[16];
    Params params;
    for (int i = 0; i < n_conns; i++) {
        batch_swap(&all[i].next, &all[i].sent);
        push_params(&params, &all[i].sent);
        send_call(all[i].c, "push", &params);
        batch_build(&all[i].next, &all[i].own, batch, version, NULL);
        polled[i] = (struct pollfd){.fd = PQsocket(all[i].c), .events = POLLIN};
    }
    for (int running = n_conns; running;) {
        poll(polled, (nfds_t)n_conns, -1);
        for (int i = 0; i < n_conns; i++) {
            if (polled[i].fd < 0 || !polled[i].revents) continue;
            if (!PQconsumeInput(all[i].c)) fatal("%s", PQerrorMessage(all[i].c));
            if (PQisBusy(all[i].c)) continue;
            PGresult *res = finish_call(all[i].c);
            push_result(&all[i].own, all[i].sent.row_of, res);
            PQclear(res);
            messages += batch;
            calls++;
            now = clock_of(CLOCK_MONOTONIC);
            if (now - began >= us) { polled[i].fd = -1; running--; continue; }
            batch_swap(&all[i].next, &all[i].sent);
            push_params(&params, &all[i].sent);
            send_call(all[i].c, "push", &params);
            load.now = now;
            batch_build(&all[i].next, &all[i].own, batch, version, NULL); /* while the server works */
        }
    }
    printf("{\"messages_per_s\":%.1f,\"calls\":%ld}\n", (double)messages * 1e6 / (double)(now - began), calls);
}

static void floor_copy(int64_t us, int batch, const char *partitions, int version, const char *queue) {
    PGconn *c = open_one();
    Batch b = {0};
    int queue_id;
    int64_t messages = 0, calls = 0, began, now;
    Partitions p = resolve(c, queue, partitions, &queue_id);
    int64_t *heads = calloc((size_t)p.n, sizeof *heads);
    PQclear(checked(c, PQexec(c, "DROP TABLE IF EXISTS bench_heap"), PGRES_COMMAND_OK));
    PQclear(checked(c, PQexec(c, "CREATE TABLE bench_heap (LIKE queend.log INCLUDING STORAGE INCLUDING COMPRESSION)"), PGRES_COMMAND_OK));
    batch_build(&b, &p, batch, version, heads);
    began = now = clock_of(CLOCK_MONOTONIC);
    while (now - began < us) {
        PQclear(checked(c, PQexec(c, "COPY bench_heap (partition_id, base, n, created_at, high, odd, ids, body, meta) FROM STDIN (FORMAT binary)"), PGRES_COPY_IN));
        if (PQputCopyData(c, b.copy.p, (int)b.copy.len) != 1 || PQputCopyEnd(c, NULL) != 1 || PQflush(c)) fatal("%s", PQerrorMessage(c));
        load.now = now;
        batch_build(&b, &p, batch, version, heads);
        PGresult *res = PQgetResult(c);
        PQclear(checked(c, res, PGRES_COMMAND_OK));
        while ((res = PQgetResult(c))) PQclear(res);
        messages += batch;
        calls++;
        now = clock_of(CLOCK_MONOTONIC);
    }
    PQclear(checked(c, PQexec(c, "DROP TABLE bench_heap"), PGRES_COMMAND_OK));
    printf("{\"messages_per_s\":%.1f,\"calls\":%ld}\n", (double)messages * 1e6 / (double)(now - began), calls);
}

static void floor_pop(int64_t us, int requests, int budget, bool lease, const char *queue) {
    PGconn *c = open_one();
    Pops pops = {.requests = requests, .budget = budget, .lease = lease, .first_round = true};
    Params params;
    int queue_id, dry = 0;
    int64_t messages = 0, calls = 0, began, now;
    const char *name[] = {queue};
    PGresult *res = checked(c, PQexecParams(c, "SELECT count(*) FROM queend.partitions p JOIN queend.queues q ON q.id = p.queue_id WHERE q.name = $1", 1, NULL, name, NULL, NULL, 0), PGRES_TUPLES_OK);
    pops.parts = resolve(c, queue, PQgetvalue(res, 0, 0), &queue_id);
    PQclear(res);
    if (pops.requests > pops.parts.n) pops.requests = pops.parts.n; /* a partition occurs once per call */
    pops.leases = malloc(16 * (size_t)pops.requests);
    char queue_text[16];
    snprintf(queue_text, sizeof queue_text, "%d", queue_id);
    const char *values[] = {queue_text, lease ? "cycle" : "__QUEUE_MODE__"};
    res = checked(c, PQexecParams(c, "SELECT group_id FROM queend.group_resolve($1::int, $2, 'all', NULL)", 2, NULL, values, NULL, NULL, 0), PGRES_TUPLES_OK);
    pops.group = atoi(PQgetvalue(res, 0, 0));
    PQclear(res);
    prepare(c, "pop", POP);
    prepare(c, "ack", ACK);
    began = now = clock_of(CLOCK_MONOTONIC);
    while (now - began < us && dry <= 2 * pops.parts.n / pops.requests + 2) {
        pop_params(&params, &pops);
        send_call(c, "pop", &params);
        res = finish_call(c);
        int n = pop_result(&pops, res);
        PQclear(res);
        calls++;
        dry = n ? 0 : dry + 1;
        if (n && lease) {
            ack_params(&params, &pops);
            send_call(c, "ack", &params);
            res = finish_call(c);
            n = ack_result(&pops, res);
            PQclear(res);
            calls++;
        }
        messages += n;
        if (n) now = clock_of(CLOCK_MONOTONIC);
    }
    printf("{\"messages_per_s\":%.1f,\"calls\":%ld}\n", now > began ? (double)messages * 1e6 / (double)(now - began) : 0, calls);
}

int main(int argc, char **argv) {
    if (argc < 8) fatal("usage: see the head of bench/floor/main.c");
    dsn = argv[1];
    int64_t us = (int64_t)(atof(argv[3]) * 1e6);
    load.now = clock_of(CLOCK_MONOTONIC);
    load.wall_offset = clock_of(CLOCK_REALTIME) - load.now;
    if (getrandom(random_fresh, sizeof random_fresh, 0) != sizeof random_fresh) fatal("no random bytes");
    if (!strcmp(argv[2], "push") && argc == 9) floor_push(us, atoi(argv[4]), atoi(argv[5]), argv[6], atoi(argv[7]), argv[8]);
    else if (!strcmp(argv[2], "copy") && argc == 9) floor_copy(us, atoi(argv[5]), argv[6], atoi(argv[7]), argv[8]);
    else if (!strcmp(argv[2], "pop") && argc == 8) floor_pop(us, atoi(argv[4]), atoi(argv[5]), atoi(argv[6]), argv[7]);
    else fatal("unknown floor %s", argv[2]);
    return 0;
}
