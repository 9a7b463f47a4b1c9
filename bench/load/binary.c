/* The binary bodies of the 2.x client: one group per request, plain or as message frames in a zstd frame (compressed anew in every
 * request: the ids are inside). Layouts in docs/binary-formats.md. */
#define _GNU_SOURCE
#include "load.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { ID_TEXT = 36, FRAME_HEAD = 23 };

static void le(Text *t, uint64_t v, int n) { text_add(t, &v, (size_t)n); } /* little-endian machines only, as the daemon's own tests */

void binary_prepare(Role *r, Template *t) {
    Text body = {0};
    size_t n = (size_t)r->items;
    t->id = malloc(5 * n * sizeof *t->id);
    t->order = t->id + n; t->part = t->order + n; t->at = t->part + n; t->queue = t->at + n;
    for (size_t i = 0; i < n; i++) {
        Text one = {0};
        size_t order, at;
        payload_build(&one, &order, &at);
        if (r->form == FORM_FRAMED) {
            le(&body, FRAME_HEAD - 4 + ID_TEXT + one.len, 4);
            le(&body, 0, 1);
            text_add(&body, "0000000000000000", 16);
            le(&body, ID_TEXT, 2);
            t->id[i] = body.len;
            text_add(&body, "00000000-0000-0000-0000-000000000000", ID_TEXT);
        } else {
            le(&body, ID_TEXT, 2);
            t->id[i] = body.len;
            text_add(&body, "00000000-0000-0000-0000-000000000000", ID_TEXT);
            le(&body, one.len, 4);
        }
        t->order[i] = body.len + order;
        t->at[i] = body.len + at;
        text_add(&body, one.p, one.len);
        free(one.p);
    }
    t->bytes = body.p;
    t->len = body.len;
}

void binary_request(Conn *c, Template *t, uint64_t partition) {
    static ZSTD_CCtx *zip;
    static Text raw, packed;
    Role *r = c->role;
    int64_t wall = load.now + load.wall_offset;
    char at[16], head[] = "QPB1\x04\x01\0\0\0";
    Text group = {0};
    digits_write(at, 16, (uint64_t)(c->began + load.wall_offset));
    raw.len = 0;
    text_add(&raw, t->bytes, t->len);
    for (int i = 0; i < r->items; i++) {
        char *id = raw.p + t->id[i];
        id_write(id, r->ids, wall);
        memcpy(raw.p + t->order[i], id + 28, 8);
        memcpy(raw.p + t->at[i], at, 16);
        if (r->form == FORM_FRAMED) { /* the client's message id: the same millisecond, then chance */
            uint64_t ms = (uint64_t)wall / 1000, chance[2] = {random_next(random_fresh), random_next(random_fresh)};
            unsigned char *m = (unsigned char *)id - 18;
            for (int k = 0; k < 6; k++) m[k] = (unsigned char)(ms >> (40 - 8 * k));
            memcpy(m + 6, chance, 10);
            m[6] = 0x70 | (m[6] & 15);
            m[8] = 0x80 | (m[8] & 63);
        }
    }
    const Text *content = &raw;
    if (r->form == FORM_FRAMED) {
        if (!zip) zip = ZSTD_createCCtx();
        packed.len = 0;
        text_room(&packed, ZSTD_compressBound(raw.len));
        packed.len = ZSTD_compressCCtx(zip, packed.p, packed.cap, raw.p, raw.len, 1);
        content = &packed;
        head[4] = 8;
    }
    text_add(&group, head, 9);
    le(&group, strlen(r->queue), 2);
    text_print(&group, "%s", r->queue);
    le(&group, 1 + (uint64_t)r->part_digits, 2);
    text_print(&group, "%c%0*d", r->mark ? r->mark : 'p', r->part_digits, (int)partition);
    le(&group, (uint64_t)r->items, 4);
    if (r->form == FORM_FRAMED) le(&group, content->len, 4);
    c->out.len = 0;
    text_print(&c->out, "POST /api/v1/push%s HTTP/1.1\r\nHost: %s:%d\r\nContent-Type: application/x-queen-push\r\nContent-Length: %zu\r\n\r\n",
               r->counts ? "?format=counts" : "", load.host, load.port, group.len + content->len);
    text_add(&c->out, group.p, group.len);
    text_add(&c->out, content->p, content->len);
    free(group.p);
    c->items = (uint32_t)r->items;
    conn_send(c);
}

/* Messages in a framed answer: the claims' windows of offsets. 0: none, or no framed answer. */
uint64_t binary_popped(const char *body, size_t len) {
    const unsigned char *p = (const unsigned char *)body, *end = p + len;
    uint64_t total = 0, first, last;
    uint32_t claims, records, size;
    uint16_t text;
    if (len < 9 || memcmp(p, "QPF1\x01", 5)) return 0;
    memcpy(&size, p + 5, 4);
    p += 9 + size;
    for (int i = 0; i < 3 && p + 2 <= end; i++) { memcpy(&text, p, 2); p += 2 + text; }
    if (p + 4 > end) return 0;
    memcpy(&claims, p, 4);
    p += 4;
    while (claims-- && p + 10 <= end) {
        memcpy(&text, p + 8, 2);
        p += 10 + text;
        if (p + 24 > end) break;
        memcpy(&first, p, 8); memcpy(&last, p + 8, 8); memcpy(&records, p + 20, 4);
        total += last + 1 - first;
        p += 24;
        while (records-- && p + 25 <= end) { memcpy(&size, p + 21, 4); p += 25 + size; }
    }
    return total;
}
