/* JetStream over NATS' text protocol. A stream with the subjects QUEUE.p00000, QUEUE.p00001, …; a publish carries a reply subject, to which
 * the server answers once the message is in the stream. One durable pull consumer with explicit acknowledgement for all consumers:
 * each asks for a batch, acknowledges every message as it arrives, and asks again when the batch is complete. */
#define _GNU_SOURCE
#include "peers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PULL_MS = 5000 };
typedef struct { char *subject, *reply, *body; size_t reply_len, len, head_len; } Frame; /* body: headers first */

/* The next message, or the PONG (subject NULL). */
static bool frame_next(Link *l, Frame *f) {
    for (;;) {
        char *p = l->in.p + l->used, *end = l->in.p + l->in.len, *eol = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
        if (!eol) return false;
        size_t after = (size_t)(eol + 1 - l->in.p);
        if (*p == 'M' || *p == 'H') { /* MSG subject sid [reply] size | HMSG subject sid [reply] head-size size */
            char *word[8], *at = p;
            int n = 0;
            while (at < eol && n < 8) {
                word[n++] = at;
                while (at < eol && *at != ' ' && *at != '\r') at++;
                while (at < eol && (*at == ' ' || *at == '\r')) at++;
            }
            int sizes = *p == 'H' ? 2 : 1;
            if (n < 3 + sizes) fail("a broken message from NATS");
            f->len = (size_t)atoll(word[n - 1]);
            f->head_len = sizes == 2 ? (size_t)atoll(word[n - 2]) : 0;
            if ((size_t)(end - eol - 1) < f->len + 2) return false;
            f->subject = word[1];
            f->reply = n == 4 + sizes ? word[3] : NULL;
            f->reply_len = f->reply ? strcspn(f->reply, " ") : 0;
            f->body = eol + 1;
            l->used = after + f->len + 2;
            return true;
        }
        l->used = after;
        if (!strncmp(p, "PING", 4)) text_add(&l->out, "PONG\r\n", 6);
        else if (*p == '-') fail(p);
        else if (!strncmp(p, "PONG", 4)) { f->subject = NULL; return true; }
    }
}

static Frame nats_answer(Link *l) {
    Frame f;
    while (!frame_next(l, &f)) link_wait(l);
    return f;
}

static void nats_open(Link *l) {
    link_connect(l);
    text_print(&l->out, "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,\"lang\":\"c\",\"version\":\"1\"}\r\n"
               "SUB _INBOX.%d.%d 1\r\nPING\r\n", peers.port, l->number);
    if (nats_answer(l).subject) fail("NATS did not greet");
}

static void nats_ask(Link *l, const char *api, const char *body) {
    text_print(&l->out, "PUB $JS.API.%s _INBOX.%d.%d %zu\r\n%s\r\n", api, peers.port, l->number, strlen(body), body);
}

static Frame nats_asked(Link *l, const char *api, const char *body) {
    nats_ask(l, api, body);
    Frame f = nats_answer(l);
    if (memmem(f.body, f.len, "\"error\"", 7) || f.head_len) fail(f.body);
    return f;
}

static void nats_create(Link *l) {
    char api[200], body[600];
    snprintf(api, sizeof api, "STREAM.CREATE.%s", peers.queue);
    snprintf(body, sizeof body, "{\"name\":\"%s\",\"subjects\":[\"%s.*\"],\"storage\":\"file\",\"retention\":\"limits\",\"discard\":\"old\","
             "\"num_replicas\":1,\"max_msgs\":-1,\"max_bytes\":-1,\"max_consumers\":-1,\"max_msg_size\":-1,\"duplicate_window\":120000000000}",
             peers.queue, peers.queue);
    nats_asked(l, api, body);
    snprintf(api, sizeof api, "CONSUMER.DURABLE.CREATE.%s.all", peers.queue);
    snprintf(body, sizeof body, "{\"stream_name\":\"%s\",\"config\":{\"durable_name\":\"all\",\"deliver_policy\":\"all\",\"ack_policy\":\"explicit\","
             "\"ack_wait\":300000000000,\"max_deliver\":-1,\"max_ack_pending\":20000,\"replay_policy\":\"instant\"}}", peers.queue);
    nats_asked(l, api, body);
}

static int64_t nats_count(Link *l) {
    char api[200];
    snprintf(api, sizeof api, "STREAM.INFO.%s", peers.queue);
    Frame f = nats_asked(l, api, "");
    char *at = memmem(f.body, f.len, "\"messages\":", 11);
    if (!at) fail("a stream without messages");
    return atoll(at + 11);
}

static void nats_pull(Link *l) {
    char api[200], body[80];
    snprintf(api, sizeof api, "CONSUMER.MSG.NEXT.%s.all", peers.queue);
    snprintf(body, sizeof body, "{\"batch\":%d,\"expires\":%lld}", l->task->items, PULL_MS * 1000000LL);
    l->got = 0;
    nats_ask(l, api, body);
}

static void nats_publisher(Link *l) {
    text_print(&l->scratch, " _INBOX.%d.%d ", peers.port, l->number);
}

static void nats_publish(Link *l, int n) {
    static char head[] = "NATS/1.0\r\nNats-Msg-Id: 000000000000000000000000000000000000\r\n\r\n";
    enum { HEAD = sizeof head - 1, ID = 36 };
    bool ids = !strcmp(peers.kind, "natsids"); /* every message with an id, which the server looks up */
    char head_size[8];
    snprintf(head_size, sizeof head_size, "%d ", HEAD);
    while (n--) {
        size_t len;
        const char *payload = message_next(l, &len);
        char key[] = ".p00000", size[] = "0000\r\n";
        digits_write(key + 2, 5, random_next(random_seeded) % (uint64_t)peers.keys);
        digits_write(size, 4, ids ? HEAD + len : len);
        text_add(&l->out, ids ? "HPUB " : "PUB ", ids ? 5 : 4);
        text_add(&l->out, peers.queue, strlen(peers.queue));
        text_add(&l->out, key, 7);
        text_add(&l->out, l->scratch.p, l->scratch.len);
        if (ids) text_add(&l->out, head_size, strlen(head_size));
        text_add(&l->out, size, 6);
        if (ids) {
            id_write(head + sizeof head - 5 - ID, 7, peers.now + peers.wall_offset);
            text_add(&l->out, head, HEAD);
        }
        text_add(&l->out, payload, len);
        text_add(&l->out, "\r\n", 2);
    }
}

static void nats_event(Link *l) {
    Frame f;
    while (link_read(l)) {
        while (frame_next(l, &f)) {
            if (!f.subject) continue;
            if (l->task->push) { /* {"stream":"...","seq":1}, or headers that say 503: no stream took it */
                if (f.head_len || memmem(f.body, f.len, "\"error\"", 7)) link_error(l, f.body, f.len);
                link_confirmed(l, 1);
            } else if (f.reply) {
                link_delivered(l, f.body + f.head_len, f.len - f.head_len);
                text_add(&l->out, "PUB ", 4);
                text_add(&l->out, f.reply, f.reply_len);
                text_add(&l->out, " 4\r\n+ACK\r\n", 10);
                link_acked(l, 1);
                if (++l->got == l->task->items) nats_pull(l);
            } else if (!strncmp(f.body, "NATS/1.0 408", 12)) { /* the request has expired */
                nats_pull(l);
            } else {
                link_error(l, f.body, f.len);
            }
        }
        link_flush(l);
    }
}

const Wire nats_wire = {"nats", nats_open, nats_create, nats_count, nats_publisher, nats_pull, nats_publish, nats_event};
