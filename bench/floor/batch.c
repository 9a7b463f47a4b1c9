/* Record batches in the layout of the log, and binary arrays. */
#include "floor.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

void big_endian(void *to, uint64_t value, int bytes) {
    unsigned char *p = to;
    while (bytes--) { p[bytes] = (unsigned char)value; value >>= 8; }
}

uint64_t from_big_endian(const void *from, int bytes) {
    const unsigned char *p = from;
    uint64_t value = 0;
    while (bytes--) value = value << 8 | *p++;
    return value;
}

void array_begin(Array *a, uint32_t type) {
    a->bytes.len = 0;
    text_room(&a->bytes, 20);
    a->bytes.len = 20; /* dimensions, null flag, type, size, lower bound: written by array_end */
    a->type = type;
    a->n = 0;
    a->nulls = false;
}

void array_put(Array *a, const void *value, size_t n) {
    char size[4];
    big_endian(size, n, 4);
    text_add(&a->bytes, size, 4);
    text_add(&a->bytes, value, n);
    a->n++;
}

void array_null(Array *a) {
    text_add(&a->bytes, "\xff\xff\xff\xff", 4);
    a->n++;
    a->nulls = true;
}

void array_int(Array *a, int64_t value) {
    char bytes[8];
    int n = a->type == INT2 ? 2 : a->type == INT4 ? 4 : a->type == INT8 ? 8 : 1;
    big_endian(bytes, (uint64_t)value, n);
    array_put(a, bytes, (size_t)n);
}

void array_end(Array *a) {
    uint32_t head[5] = {a->n ? 1u : 0u, a->nulls, a->type, (uint32_t)a->n, 1};
    for (int i = 0; i < 5; i++) big_endian(a->bytes.p + 4 * i, head[i], 4);
    if (!a->n) a->bytes.len = 12;
}

static void id_make(unsigned char *id, int version) {
    static uint64_t last;
    uint64_t head, tail = random_next(random_fresh);
    if (version == 7) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        head = (uint64_t)(t.tv_sec * 1000LL + t.tv_nsec / 1000000) << 12;
        if (head <= last) head = last + 1;
        last = head;
    } else {
        head = random_next(random_fresh) >> 4;
    }
    big_endian(id, head >> 12 << 16 | (uint64_t)version << 12 | (head & 0xfff), 8);
    big_endian(id + 8, (tail & 0x3fffffffffffffffu) | 0x8000000000000000u, 8);
}

static void copy_field(Text *t, const void *value, size_t n) {
    char size[4];
    big_endian(size, n, 4);
    text_add(t, size, 4);
    text_add(t, value, n);
}

static void copy_int(Text *t, uint64_t value, int n) {
    char bytes[8];
    big_endian(bytes, value, n);
    copy_field(t, bytes, (size_t)n);
}

static struct { char text[160]; size_t len, order, at; } payloads[4096];

static void payloads_build(void) {
    for (int i = 0; i < 4096; i++) {
        Text t = {0};
        payload_build(&t, &payloads[i].order, &payloads[i].at);
        memcpy(payloads[i].text, t.p, payloads[i].len = t.len);
        free(t.p);
    }
}

int partition_order(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x & 63) != (y & 63) ? (x & 63) - (y & 63) : x - y;
}

/* One row: `take` records of one partition. */
static void row_build(Batch *b, const Partitions *p, int place, int skip, int take, int version, const unsigned char *ids, int64_t head) {
    static Text body;
    int partition = p->ids[place];
    static char sizes[2 * ROW_RECORDS + 1];
    size_t n_sizes = 0;
    char order[9];
    body.len = 0;
    sizes[n_sizes++] = 0x10;
    for (int i = 0; i < take; i++) {
        int which = (int)(random_next(random_seeded) >> 20 & 4095);
        size_t at = body.len, len = payloads[which].len; /* 128 to 137: two bytes of varint */
        text_add(&body, payloads[which].text, len);
        for (int k = 0; k < 8; k++) order[k] = "0123456789abcdef"[ids[16 * i + 12 + k / 2] >> (k % 2 ? 0 : 4) & 15];
        memcpy(body.p + at + payloads[which].order, order, 8);
        digits_write(body.p + at + payloads[which].at, 16, (uint64_t)(load.now + load.wall_offset));
        sizes[n_sizes++] = (char)((len & 127) | 128);
        sizes[n_sizes++] = (char)(len >> 7);
    }
    static Text whole;
    whole.len = 0;
    text_add(&whole, sizes, n_sizes);
    text_add(&whole, body.p, body.len);
    if (head >= 0) {
        text_add(&b->copy, "\0\x09", 2);
        copy_int(&b->copy, (uint64_t)partition, 4);
        copy_int(&b->copy, (uint64_t)head, 8);
        copy_int(&b->copy, (uint64_t)take, 4);
        copy_int(&b->copy, (uint64_t)(load.now + load.wall_offset), 8);
        copy_field(&b->copy, ids + 16 * (take - 1), 16);
        copy_int(&b->copy, 0, 1);
        copy_field(&b->copy, ids, 16 * (size_t)take);
        copy_field(&b->copy, whole.p, whole.len);
        copy_field(&b->copy, "", 0);
        return;
    }
    array_int(&b->part, partition);
    array_int(&b->skip, skip);
    array_int(&b->n, take);
    array_int(&b->kind, version == 7 ? 1 : 2);
    array_put(&b->ids, ids, 16 * (size_t)take);
    array_put(&b->body, whole.p, whole.len);
    array_null(&b->meta);
    if (b->rows == b->room) b->row_of = realloc(b->row_of, (size_t)(b->room = 2 * b->room + 64) * sizeof *b->row_of);
    b->row_of[b->rows++] = place;
    array_int(&b->hint, p->row_base[place]);
}

void batch_build(Batch *b, const Partitions *p, int messages, int version, int64_t *heads) {
    static int *counts, cap;
    static unsigned char *ids;
    if (!payloads[0].len) payloads_build();
    if (cap < messages + p->n) {
        cap = messages + p->n;
        counts = realloc(counts, (size_t)cap * sizeof *counts);
        ids = realloc(ids, 16 * (size_t)cap);
    }
    memset(counts, 0, (size_t)p->n * sizeof *counts);
    for (int i = 0; i < messages; i++) counts[(random_next(random_seeded) >> 16) % (uint64_t)p->n]++;
    array_begin(&b->lanes, INT4); array_begin(&b->part, INT4); array_begin(&b->skip, INT4); array_begin(&b->n, INT4);
    array_begin(&b->kind, INT2); array_begin(&b->lo, UUID); array_begin(&b->hi, UUID); array_begin(&b->ids, BYTEA);
    array_begin(&b->body, BYTEA); array_begin(&b->meta, BYTEA); array_begin(&b->hint, INT8);
    b->rows = 0;
    b->messages = messages;
    b->copy.len = 0;
    if (heads) text_add(&b->copy, "PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0", 19);
    int last_lane = -1;
    for (int i = 0; i < p->n; i++) { /* partitions are sorted by lane */
        if (!counts[i]) continue;
        if ((p->ids[i] & 63) != last_lane) array_int(&b->lanes, last_lane = p->ids[i] & 63);
        for (int k = 0; k < counts[i]; k++) id_make(ids + 16 * k, version);
        for (int skip = 0; skip < counts[i];) {
            int take = counts[i] - skip, most = ROW_BYTES / 137;
            if (take > most) take = most;
            row_build(b, p, i, skip, take, version, ids + 16 * skip, heads ? heads[i] : -1);
            if (heads) heads[i] += take;
            else if (version == 7) { array_put(&b->lo, ids, 16); array_put(&b->hi, ids + 16 * (counts[i] - 1), 16); }
            else { array_null(&b->lo); array_null(&b->hi); }
            skip += take;
        }
    }
    if (heads) text_add(&b->copy, "\xff\xff", 2);
    array_end(&b->lanes); array_end(&b->part); array_end(&b->skip); array_end(&b->n); array_end(&b->kind);
    array_end(&b->lo); array_end(&b->hi); array_end(&b->ids); array_end(&b->body); array_end(&b->meta); array_end(&b->hint);
}
