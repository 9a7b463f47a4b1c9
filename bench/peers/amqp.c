/* RabbitMQ over AMQP 0-9-1: one channel per connection, publisher confirms, persistent messages through the default exchange into one
 * queue. A consumer holds up to two batches unacknowledged and acknowledges a batch with one frame. */
#define _GNU_SOURCE
#include "peers.h"
#include <endian.h>
#include <stdio.h>
#include <string.h>

enum { FRAME_METHOD = 1, FRAME_HEADER = 2, FRAME_BODY = 3, FRAME_END = 0xCE, FRAME_MAX = 131072 };
#define METHOD(class, method) ((class) << 16 | (method))
enum {
    CONNECTION_START = METHOD(10, 10), CONNECTION_START_OK = METHOD(10, 11), CONNECTION_TUNE = METHOD(10, 30), CONNECTION_TUNE_OK = METHOD(10, 31),
    CONNECTION_OPEN = METHOD(10, 40), CONNECTION_OPEN_OK = METHOD(10, 41), CHANNEL_OPEN = METHOD(20, 10), CHANNEL_OPEN_OK = METHOD(20, 11),
    QUEUE_DECLARE = METHOD(50, 10), QUEUE_DECLARE_OK = METHOD(50, 11), BASIC_QOS = METHOD(60, 10), BASIC_QOS_OK = METHOD(60, 11),
    BASIC_CONSUME = METHOD(60, 20), BASIC_CONSUME_OK = METHOD(60, 21), BASIC_PUBLISH = METHOD(60, 40), BASIC_DELIVER = METHOD(60, 60),
    BASIC_ACK = METHOD(60, 80), BASIC_NACK = METHOD(60, 120), CONFIRM_SELECT = METHOD(85, 10), CONFIRM_SELECT_OK = METHOD(85, 11)
};
typedef struct { int type; uint32_t method; const char *p; size_t len; } Frame; /* p: behind the method's number */

static void put8(Text *t, unsigned v) { char c = (char)v; text_add(t, &c, 1); }
static void put16(Text *t, unsigned v) { uint16_t b = htobe16((uint16_t)v); text_add(t, &b, 2); }
static void put32(Text *t, uint32_t v) { v = htobe32(v); text_add(t, &v, 4); }
static void put64(Text *t, uint64_t v) { v = htobe64(v); text_add(t, &v, 8); }
static void put_short(Text *t, const char *s) { size_t n = strlen(s); put8(t, (unsigned)n); text_add(t, s, n); }
static void put_long(Text *t, const char *s, size_t n) { put32(t, (uint32_t)n); text_add(t, s, n); }
static uint32_t get32(const char *p) { uint32_t v; memcpy(&v, p, 4); return be32toh(v); }
static uint64_t get64(const char *p) { uint64_t v; memcpy(&v, p, 8); return be64toh(v); }

static size_t frame_begin(Text *t, int type, int channel) {
    put8(t, (unsigned)type);
    put16(t, (unsigned)channel);
    put32(t, 0);
    return t->len;
}

static void frame_end(Text *t, size_t began) {
    uint32_t size = htobe32((uint32_t)(t->len - began));
    memcpy(t->p + began - 4, &size, 4);
    put8(t, FRAME_END);
}

static size_t method_begin(Link *l, uint32_t method) {
    size_t began = frame_begin(&l->out, FRAME_METHOD, method >> 16 == 10 ? 0 : 1);
    put32(&l->out, method);
    return began;
}

static bool frame_next(Link *l, Frame *f) {
    size_t have = l->in.len - l->used;
    const char *p = l->in.p + l->used;
    if (have < 8) return false;
    size_t size = get32(p + 3);
    if (have < size + 8) return false;
    if ((unsigned char)p[7 + size] != FRAME_END) fail("a broken frame from RabbitMQ");
    *f = (Frame){.type = p[0], .p = p + 7, .len = size};
    if (f->type == FRAME_METHOD) { f->method = get32(f->p); f->p += 4; f->len -= 4; }
    l->used += size + 8;
    return true;
}

/* Sends what stands in `out`, then waits for this method. */
static Frame amqp_expect(Link *l, uint32_t method) {
    Frame f;
    do { while (!frame_next(l, &f)) link_wait(l); } while (f.type != FRAME_METHOD);
    if (f.method != method) {
        char why[300];
        snprintf(why, sizeof why, "RabbitMQ answered %u.%u: %.*s", f.method >> 16, f.method & 0xffff, (int)(f.len > 200 ? 200 : f.len), f.p + 3);
        fail(why);
    }
    return f;
}

static void amqp_open(Link *l) {
    link_connect(l);
    Text *t = &l->out;
    text_add(t, "AMQP\0\0\x09\x01", 8);
    amqp_expect(l, CONNECTION_START);
    size_t m = method_begin(l, CONNECTION_START_OK);
    put32(t, 0);
    put_short(t, "PLAIN");
    put_long(t, "\0guest\0guest", 12);
    put_short(t, "en_US");
    frame_end(t, m);
    amqp_expect(l, CONNECTION_TUNE);
    m = method_begin(l, CONNECTION_TUNE_OK);
    put16(t, 1); /* one channel */
    put32(t, FRAME_MAX);
    put16(t, 0); /* no heartbeat */
    frame_end(t, m);
    m = method_begin(l, CONNECTION_OPEN);
    put_short(t, "/");
    put_short(t, "");
    put8(t, 0);
    frame_end(t, m);
    amqp_expect(l, CONNECTION_OPEN_OK);
    m = method_begin(l, CHANNEL_OPEN);
    put_short(t, "");
    frame_end(t, m);
    amqp_expect(l, CHANNEL_OPEN_OK);
}

static Frame amqp_declare(Link *l, unsigned bits, bool typed) {
    Text *t = &l->out;
    size_t m = method_begin(l, QUEUE_DECLARE);
    put16(t, 0);
    put_short(t, peers.queue);
    put8(t, bits);
    put32(t, 0);
    size_t table = t->len;
    if (typed) {
        put_short(t, "x-queue-type");
        put8(t, 'S');
        put_long(t, peers.kind, strlen(peers.kind));
        uint32_t size = htobe32((uint32_t)(t->len - table));
        memcpy(t->p + table - 4, &size, 4);
    }
    frame_end(t, m);
    return amqp_expect(l, QUEUE_DECLARE_OK);
}

static void amqp_create(Link *l) { amqp_declare(l, 2, true); }                        /* durable */

static int64_t amqp_count(Link *l) {
    Frame f = amqp_declare(l, 1, false);                                               /* passive: only asks */
    return get32(f.p + 1 + (unsigned char)f.p[0]);
}

static void amqp_publisher(Link *l) {
    size_t m = method_begin(l, CONFIRM_SELECT);
    put8(&l->out, 0);
    frame_end(&l->out, m);
    amqp_expect(l, CONFIRM_SELECT_OK);
    l->first = 1;
}

static void amqp_consumer(Link *l) {
    Text *t = &l->out;
    size_t m = method_begin(l, BASIC_QOS);
    put32(t, 0);
    put16(t, (unsigned)l->task->items * 2);
    put8(t, 0);
    frame_end(t, m);
    amqp_expect(l, BASIC_QOS_OK);
    m = method_begin(l, BASIC_CONSUME);
    put16(t, 0);
    put_short(t, peers.queue);
    put_short(t, "");
    put8(t, 0);
    put32(t, 0);
    frame_end(t, m);
    amqp_expect(l, BASIC_CONSUME_OK);
}

static void amqp_publish(Link *l, int n) {
    Text *t = &l->out;
    memset(l->seen, 0, (size_t)n);
    while (n--) {
        size_t len, m = method_begin(l, BASIC_PUBLISH);
        const char *payload = message_next(l, &len);
        put16(t, 0);
        put8(t, 0); /* the default exchange: the routing key is the queue */
        put_short(t, peers.queue);
        put8(t, 0);
        frame_end(t, m);
        m = frame_begin(t, FRAME_HEADER, 1);
        put16(t, 60);
        put16(t, 0);
        put64(t, len);
        put16(t, 0x1000); /* delivery mode */
        put8(t, 2);       /* persistent */
        frame_end(t, m);
        m = frame_begin(t, FRAME_BODY, 1);
        text_add(t, payload, len);
        frame_end(t, m);
    }
}

/* Confirms come in any order; `multiple` confirms everything up to the tag. */
static void amqp_confirm(Link *l, uint64_t tag, bool multiple) {
    int items = l->task->items, n = 0;
    if (tag < l->first || tag - l->first >= (uint64_t)items) { link_error(l, "a confirm for nothing", 21); return; }
    int at = (int)(tag - l->first);
    for (int i = multiple ? 0 : at; i <= at; i++) if (!l->seen[i]) { l->seen[i] = 1; n++; }
    if (n == l->waiting) l->first += (uint64_t)items; /* before the next request goes out */
    link_confirmed(l, n);
}

static void amqp_ack(Link *l, int n) {
    size_t m = method_begin(l, BASIC_ACK);
    put64(&l->out, l->last);
    put8(&l->out, 1);
    frame_end(&l->out, m);
    l->got = 0;
    link_acked(l, n);
}

static void amqp_frame(Link *l, const Frame *f) {
    if (f->type == FRAME_BODY) {
        if (!l->in_message || f->len != l->body_left) fail("a message of RabbitMQ in pieces");
        l->in_message = false;
        link_delivered(l, f->p, f->len);
        if (++l->got == l->task->items) amqp_ack(l, l->got);
    } else if (f->type == FRAME_HEADER) {
        l->body_left = get64(f->p + 4);
    } else if (f->type == FRAME_METHOD) {
        switch (f->method) {
        case BASIC_DELIVER:
            l->last = get64(f->p + 1 + (unsigned char)f->p[0]);
            l->in_message = true;
            break;
        case BASIC_ACK:
            amqp_confirm(l, get64(f->p), f->p[8] & 1);
            break;
        case BASIC_NACK:
            link_error(l, "refused (nack)", 14);
            amqp_confirm(l, get64(f->p), f->p[8] & 1);
            break;
        default:
            fail("RabbitMQ closed a channel");
        }
    }
}

static void amqp_event(Link *l) {
    Frame f;
    while (link_read(l)) {
        while (frame_next(l, &f)) amqp_frame(l, &f);
        link_flush(l);
    }
}

const Wire amqp_wire = {"amqp", amqp_open, amqp_create, amqp_count, amqp_publisher, amqp_consumer, amqp_publish, amqp_event};
