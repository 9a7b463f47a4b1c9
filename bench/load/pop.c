/* Pop requests and the acknowledgements, or transactions, built from their answers by a byte scan. */
#define _GNU_SOURCE
#include "load.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRY_ANSWERS = 5 };

static const char TX_DONE[] = "\"success\":true,\"results\"";

void pop_prepare(Role *r) {
    if (r->into[0]) payload_build(&r->tx_payload, &r->tx_order, &r->tx_at);
    Text *q = &r->pop_request;
    text_print(q, "GET /api/v1/pop/queue/%s", r->queue);
    r->pop_queue = q->len;
    if (r->queues > 1) text_print(q, "%0*d", QUEUE_DIGITS, 0);
    if (r->autopilot) text_print(q, "?autopilot=true");
    else text_print(q, "?batch=%d&partitions=%d", r->batch, r->claim);
    text_print(q, "&autoAck=%s", r->lease ? "false" : "true");
    if (r->group[0]) text_print(q, "&consumerGroup=%s", r->group);
    if (r->frames) text_print(q, "&frames=true");
    if (r->wait) text_print(q, "&wait=true&timeout=%d", r->timeout_ms);
    text_print(q, " HTTP/1.1\r\nHost: %s:%d\r\n\r\n", load.host, load.port);
}

void pop_request(Conn *c) {
    Role *r = c->role;
    c->out.len -= c->sent;     /* what is still to be sent of the requests before */
    memmove(c->out.p, c->out.p + c->sent, c->out.len);
    for (; c->flying < r->depth; c->flying++) {
        size_t at = c->out.len;
        text_add(&c->out, r->pop_request.p, r->pop_request.len);
        if (r->queues > 1) digits_write(c->out.p + at + r->pop_queue, QUEUE_DIGITS, (uint64_t)(c->number % r->queues));
    }
    conn_send(c);
}

/* Delivered from partitions that the role does not look at? (Such roles pop one partition at a time.) */
static bool unmarked(const Role *r, const char *body, size_t len) {
    char word[] = "\"partition\":\"p";
    word[sizeof word - 2] = r->mark;
    return r->mark && !memmem(body, len, word, sizeof word - 1);
}

static void delivery_measure(Role *r, const char *p, const char *end) {
    if (unmarked(r, p, (size_t)(end - p))) return;
    while ((p = memmem(p, (size_t)(end - p), "\"at\":", 5))) {
        p += 5;
        int64_t at = 0;
        while (p < end && *p == ' ') p++;
        while (p < end && *p >= '0' && *p <= '9') at = at * 10 + (*p++ - '0');
        hist_add(&r->delivery, load.now + load.wall_offset - at);
        hist_add(&r->part_delivery, load.now + load.wall_offset - at);
    }
}

/* As many messages as were taken, for one partition of the other queue: the last operation of the transaction. */
static void push_build(Conn *c, Text *list, uint32_t n) {
    Role *r = c->role;
    Text *payload = &r->tx_payload;
    text_print(list, ",{\"type\":\"push\",\"items\":[");
    for (uint32_t i = 0; i < n; i++) {
        text_print(list, "%s{\"queue\":\"%s\",\"partition\":\"p%05d\",\"transactionId\":\"", i ? "," : "", r->into, c->number);
        char id[36];
        id_write(id, r->ids, load.now + load.wall_offset);
        text_add(list, id, sizeof id);
        memcpy(payload->p + r->tx_order, id + 28, 8);
        digits_write(payload->p + r->tx_at, 16, (uint64_t)(c->began + load.wall_offset));
        text_print(list, "\",\"payload\":");
        text_add(list, payload->p, payload->len);
        text_add(list, "}", 1);
    }
    text_add(list, "]}", 2);
}

/* Servers order the keys of a message differently: a message is complete when both ids were seen, in either order.
 * Keys outside "messages" make no pair there. Returns the number of acknowledgements written. */
static uint32_t ack_build(Conn *c, const char *body, size_t len) {
    Role *r = c->role;
    const char *end = body + len, *p = memmem(body, len, "\"leaseId\":\"", 11), *lease, *part = NULL, *id = NULL;
    size_t part_len = 0, id_len = 0;
    uint32_t n = 0;
    if (!p || p + 11 + 36 > end) return 0;
    lease = p + 11;
    p = memmem(body, len, "\"messages\":[", 12);
    if (!p) return 0;
    static Text list;
    list.len = 0;
    text_print(&list, r->into[0] ? "{\"operations\":[" : "{");
    if (r->group[0] && !r->into[0]) text_print(&list, "\"consumerGroup\":\"%s\",", r->group);
    if (!r->into[0]) text_print(&list, "\"acknowledgments\":[");
    char of_group[160] = "";
    if (r->into[0] && r->group[0]) snprintf(of_group, sizeof of_group, "\"type\":\"ack\",\"consumerGroup\":\"%s\",", r->group);
    else if (r->into[0]) strcpy(of_group, "\"type\":\"ack\",");
    size_t of_group_len = strlen(of_group);
    while ((p = memmem(p, (size_t)(end - p), "Id\":\"", 5))) {
        const char *value = p + 5, *close = memchr(value, '"', (size_t)(end - value));
        if (!close) break;
        if (!memcmp(p - 9, "partition", 9)) { part = value; part_len = (size_t)(close - value); }
        else if (!memcmp(p - 11, "transaction", 11)) { id = value; id_len = (size_t)(close - value); }
        if (part && id) {
            text_room(&list, 320 + id_len + part_len);
            char *w = list.p + list.len;
#define PUT(s) (memcpy(w, s, sizeof(s) - 1), w += sizeof(s) - 1)
            if (n++) *w++ = ',';
            PUT("{");
            memcpy(w, of_group, of_group_len); w += of_group_len;
            PUT("\"transactionId\":\"");
            memcpy(w, id, id_len); w += id_len;
            PUT("\",\"partitionId\":\"");
            memcpy(w, part, part_len); w += part_len;
            PUT("\",\"leaseId\":\"");
            memcpy(w, lease, 36); w += 36;
            PUT("\",\"status\":\"completed\"}");
#undef PUT
            list.len = (size_t)(w - list.p);
            part = id = NULL;
        }
        p = close;
    }
    if (r->into[0]) push_build(c, &list, n);
    text_add(&list, "]}", 2);
    c->ack.len = 0;
    text_print(&c->ack, "POST /api/v1/%s HTTP/1.1\r\nHost: %s:%d\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
               r->into[0] ? "transaction" : "ack/batch", load.host, load.port, list.len);
    text_add(&c->ack, list.p, list.len);
    return n;
}

/* Drained is what has nothing for any connection, several times in a row, since the last messages were taken or
 * acknowledged: a partition that is leased looks empty to the others, however often they ask. */
void pop_empty(Conn *c) {
    Role *r = c->role;
    if (c->drought != r->droughts) { c->drought = r->droughts; c->empties = 0; }
    if (++c->empties == DRY_ANSWERS && ++r->dry == r->conns && !r->wait) r->finished = true;
}

static void drought_end(Role *r) {
    r->droughts++;
    r->dry = 0;
}

void pop_answer(Conn *c, const char *body, size_t len) {
    Role *r = c->role;
    uint64_t n = len ? r->frames ? binary_popped(body, len) : find_count(body, len, "\"transactionId\":") : 0;
    r->taken_all += n;
    if (!n) {
        if (load.measuring) r->empty++;
        pop_empty(c);
        return;
    }
    drought_end(r);
    if (load.measuring && r->measure_delivery) delivery_measure(r, body, body + len);
    if (!r->lease) {
        role_count(c, n);
        return;
    }
    c->items = ack_build(c, body, len);
    if (c->items != n) role_error(c, "a popped message lacks transactionId, partitionId or leaseId");
    c->acking = c->items > 0;
}

void ack_answer(Conn *c, const char *body, size_t len) {
    uint64_t good = !c->role->into[0] ? find_count(body, len, "\"success\":true") : memmem(body, len, TX_DONE, sizeof TX_DONE - 1) ? c->items : 0;
    c->acking = false;
    drought_end(c->role);
    c->role->acked_all += good;
    if (good != c->items) role_error(c, "an acknowledgement was refused");
    role_count(c, good);
}
