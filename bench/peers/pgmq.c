/* pgmq over libpq: prepared calls of its own functions. A consumer reads a batch with pgmq's own long poll (5 s, a look every 100 ms: its
 * defaults), then deletes it by ids. The host is a connection string. */
#define _GNU_SOURCE
#include "peers.h"
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGE_SEND, STAGE_READ, STAGE_DELETE };
enum { HIDDEN_SECONDS = 300 };

static PGresult *pgmq_done(PGconn *pg, PGresult *r) {
    ExecStatusType status = PQresultStatus(r);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) fail(PQerrorMessage(pg));
    return r;
}

static void pgmq_open(Link *l) {
    PGconn *pg = PQconnectdb(peers.host);
    if (PQstatus(pg) != CONNECTION_OK) fail(PQerrorMessage(pg));
    l->pg = pg;
    l->fd = PQsocket(pg);
}

static void pgmq_create(Link *l) {
    const char *values[] = {peers.queue};
    PQclear(pgmq_done(l->pg, PQexecParams(l->pg, "SELECT pgmq.create($1)", 1, NULL, values, NULL, NULL, 0)));
}

static int64_t pgmq_count(Link *l) {
    const char *values[] = {peers.queue};
    PGresult *r = pgmq_done(l->pg, PQexecParams(l->pg, "SELECT queue_length FROM pgmq.metrics($1)", 1, NULL, values, NULL, NULL, 0));
    int64_t n = atoll(PQgetvalue(r, 0, 0));
    PQclear(r);
    return n;
}

static void pgmq_prepare(Link *l, const char *name, const char *call) {
    char sql[400];
    snprintf(sql, sizeof sql, call, peers.queue, HIDDEN_SECONDS, l->task->items);
    PQclear(pgmq_done(l->pg, PQprepare(l->pg, name, sql, 0, NULL)));
}

static void pgmq_publisher(Link *l) {
    pgmq_prepare(l, "send", l->task->items > 1 ? "SELECT pgmq.send_batch('%s', $1::jsonb[])" : "SELECT pgmq.send('%s', $1::jsonb)");
}

static void pgmq_call(Link *l, int stage, const char *name, const char *value) {
    l->stage = stage;
    if (!PQsendQueryPrepared(l->pg, name, value ? 1 : 0, &value, NULL, NULL, 0)) fail(PQerrorMessage(l->pg));
}

static void pgmq_consumer(Link *l) {
    pgmq_prepare(l, "read", "SELECT msg_id, message FROM pgmq.read_with_poll('%s', %d, %d)");
    pgmq_prepare(l, "delete", "SELECT pgmq.delete('%s', $1::bigint[])");
    pgmq_call(l, STAGE_READ, "read", NULL);
}

static void pgmq_publish(Link *l, int n) {
    Text *t = &l->out;
    bool array = l->task->items > 1;
    size_t len;
    t->len = 0;
    if (!array) {
        const char *payload = message_next(l, &len);
        text_add(t, payload, len);
    } else {
        for (int i = 0; i < n; i++) {
            const char *payload = message_next(l, &len);
            text_add(t, i ? ",\"" : "{\"", 2);
            for (size_t j = 0; j < len; j++) { /* JSON inside an array's text: quotes are escaped */
                if (payload[j] == '"') text_add(t, "\\", 1);
                text_add(t, payload + j, 1);
            }
            text_add(t, "\"", 1);
        }
        text_add(t, "}", 1);
    }
    text_add(t, "", 1);
    pgmq_call(l, STAGE_SEND, "send", t->p);
    t->len = 0;
}

static void pgmq_result(Link *l, PGresult *r) {
    pgmq_done(l->pg, r);
    l->rows += PQntuples(r);
    if (l->stage != STAGE_READ) return;
    for (int i = 0; i < PQntuples(r); i++) {
        const char *id = PQgetvalue(r, i, 0);
        text_add(&l->scratch, l->scratch.len ? "," : "{", 1);
        text_add(&l->scratch, id, strlen(id));
        link_delivered(l, PQgetvalue(r, i, 1), (size_t)PQgetlength(r, i, 1));
    }
}

static void pgmq_event(Link *l) {
    if (!PQconsumeInput(l->pg)) fail(PQerrorMessage(l->pg));
    while (!PQisBusy(l->pg)) {
        PGresult *r = PQgetResult(l->pg);
        if (r) {
            pgmq_result(l, r);
            PQclear(r);
            continue;
        }
        int rows = l->rows; /* the call is over: what next */
        l->rows = 0;
        if (l->stage == STAGE_SEND) {
            if (rows != l->waiting) link_error(l, "not every message has an id", 27);
            link_confirmed(l, l->waiting);
        } else if (l->stage == STAGE_READ && rows) {
            text_add(&l->scratch, "}", 2);
            pgmq_call(l, STAGE_DELETE, "delete", l->scratch.p);
            l->scratch.len = 0;
        } else {
            if (l->stage == STAGE_DELETE) link_acked(l, rows);
            if (!peers.stopping) pgmq_call(l, STAGE_READ, "read", NULL);
        }
        return;
    }
}

const Wire pgmq_wire = {"pgmq", pgmq_open, pgmq_create, pgmq_count, pgmq_publisher, pgmq_consumer, pgmq_publish, pgmq_event};
