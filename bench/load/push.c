/* Push requests: whole requests are built once; per request the ids, partitions, order numbers and time are patched in a copy. */
#define _GNU_SOURCE
#include "load.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAYLOADS = 4096 };

static void template_build(Role *r, Template *t) {
    if (r->form != FORM_JSON) { binary_prepare(r, t); return; }
    Text body = {0};
    size_t n = (size_t)r->items;
    t->id = malloc(5 * n * sizeof *t->id);
    t->order = t->id + n; t->part = t->order + n; t->at = t->part + n; t->queue = t->at + n;
    text_print(&body, "{\"items\":[");
    for (size_t i = 0; i < n; i++) {
        text_print(&body, "%s{\"queue\":\"%s", i ? "," : "", r->queue);
        t->queue[i] = body.len;
        if (r->queues > 1) text_print(&body, "%0*d", QUEUE_DIGITS, 0);
        text_print(&body, "\",\"partition\":\"%c", r->mark ? r->mark : 'p');
        t->part[i] = body.len;
        text_print(&body, "%0*d\",\"transactionId\":\"", r->part_digits, 0);
        t->id[i] = body.len;
        text_print(&body, "00000000-0000-0000-0000-000000000000\",\"payload\":");
        payload_build(&body, &t->order[i], &t->at[i]);
        text_print(&body, "}");
    }
    text_print(&body, "]}");
    Text whole = {0};
    text_print(&whole, "POST /api/v1/push%s HTTP/1.1\r\nHost: %s:%d\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
               r->counts ? "?format=counts" : "", load.host, load.port, body.len);
    size_t head = whole.len;
    text_add(&whole, body.p, body.len);
    for (size_t i = 0; i < 5 * n; i++) t->id[i] += head;
    free(body.p);
    t->bytes = whole.p;
    t->len = whole.len;
}

void push_prepare(Role *r) {
    r->part_digits = r->partitions > 100000 ? 7 : 5;
    r->n_templates = PAYLOADS / r->items;
    if (r->n_templates < 16) r->n_templates = 16;
    r->templates = calloc((size_t)r->n_templates, sizeof *r->templates);
    for (int i = 0; i < r->n_templates; i++) template_build(r, &r->templates[i]);
}

/* The partition of the next item: a large odd step that is no multiple of 5 visits every one of 10^k before it comes back. */
static uint64_t next_partition(Role *r, uint64_t x) {
    uint64_t n = (uint64_t)r->partitions;
    if (r->spread == SPREAD_RANDOM) return (x >> 16) % n;
    if (r->spread == SPREAD_BLOCK) return r->turn / (uint64_t)r->items % n;
    return r->turn * 6180339887u % n;
}

void push_request(Conn *c) {
    Role *r = c->role;
    uint64_t x = random_next(random_seeded);
    Template *t = &r->templates[x % (uint64_t)r->n_templates];
    if (r->form != FORM_JSON) {
        binary_request(c, t, next_partition(r, x));
        r->turn += (uint64_t)r->items;
        return;
    }
    int64_t wall = load.now + load.wall_offset;
    char at[16];
    digits_write(at, 16, (uint64_t)(c->began + load.wall_offset)); /* meant to start then: delivery is measured from it */
    c->out.len = 0;
    text_add(&c->out, t->bytes, t->len);
    for (int i = 0; i < r->items; i++) {
        char *p = c->out.p;
        x = random_next(random_seeded);
        digits_write(p + t->part[i], r->part_digits, next_partition(r, x));
        if (r->queues > 1) digits_write(p + t->queue[i], QUEUE_DIGITS, r->turn % (uint64_t)r->queues);
        r->turn++;
        id_write(p + t->id[i], r->ids, wall);
        memcpy(p + t->order[i], p + t->id[i] + 28, 8);
        memcpy(p + t->at[i], at, 16);
    }
    c->items = (uint32_t)r->items;
    conn_send(c);
}

void push_answer(Conn *c, const char *body, size_t len) {
    Role *r = c->role;
    uint64_t queued = 0;
    const char *number = r->counts ? memmem(body, len, "\"queued\":", 9) : NULL;
    if (number) queued = strtoull(number + 9, NULL, 10);
    else queued = find_count(body, len, "\"queued\"");
    r->stored_all += queued;
    if (queued != c->items && load.measuring) r->duplicates += c->items - queued;
    role_count(c, queued);
}
