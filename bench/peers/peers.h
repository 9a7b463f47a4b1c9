/* What the rooms of the peers' load generator share. One thread, one epoll; the same loads for every system.
 *   main.c  command line, clock, phases, report     link.c  connections: bytes in, bytes out
 *   nats.c  JetStream over NATS' text protocol      amqp.c  RabbitMQ over AMQP 0-9-1      pgmq.c  pgmq over libpq
 * Payloads, numbers and the histogram are those of load/. */
#ifndef QUEEND_PEERS_H
#define QUEEND_PEERS_H
#include "load.h"

typedef struct Task Task;
typedef struct Link Link;

/* What a system is to the generator. All but `event` may wait for the server; `event` never does. */
typedef struct {
    const char *name;
    void (*open)(Link *l);               /* connects and greets */
    void (*create)(Link *l);             /* makes the queue of this name, which must not exist */
    int64_t (*count)(Link *l);           /* messages the queue holds, acknowledged ones excluded or not as the system has it */
    void (*publisher)(Link *l);          /* asks for confirms */
    void (*consumer)(Link *l);           /* begins to take messages */
    void (*publish)(Link *l, int n);     /* n messages, each from message_next; link_confirmed follows */
    void (*event)(Link *l);              /* the socket is readable: takes everything that has arrived */
} Wire;
extern const Wire nats_wire, amqp_wire, pgmq_wire;

enum { ITEMS_MAX = 1000, KEYS_MAX = 100000 };
struct Task {
    Task *next;
    char name[32];
    bool push;
    int conns, items;                    /* items: messages in flight per publisher, messages asked for at once per consumer */
    double rate;                         /* push: messages per second on a fixed schedule; 0 = closed loop */
    int64_t count;                       /* stop after so many messages */
    bool finished;
    int64_t next_due;
    double due_exact;
    Link *idle;
    uint64_t requests, messages, errors, stored, taken, acked; /* the last three: from the first to the last */
    char last_error[160];
    Hist latency, delivery;
};

struct Link {
    Task *task;
    Link *idle_next;
    int fd, number;
    bool want_write;
    Text in, out, scratch;
    size_t used, sent;                   /* of in, of out */
    int64_t began;                       /* when the request was meant to start, monotonic us */
    int waiting;                         /* confirms the request still waits for */
    int got;                             /* messages since the last request or acknowledgement */
    uint64_t first, last;                /* AMQP: tag of the request's first message; last tag delivered */
    uint8_t seen[ITEMS_MAX];             /* AMQP: which of them are confirmed */
    bool in_message;                     /* AMQP: a delivery has begun, its header or body is outstanding */
    uint64_t body_left;
    void *pg;                            /* pgmq: the connection */
    int stage, rows;                     /* pgmq: what is in flight; messages it will have deleted */
};

extern struct Peers {
    const Wire *wire;
    const char *host, *queue, *kind;     /* kind: what the command line calls the wire; RabbitMQ's type of queue */
    int port, keys;                      /* keys: subjects, where the system has them */
    int epoll;
    int64_t now, wall_offset;            /* monotonic us; + wall_offset = Unix us */
    bool measuring, stopping;
} peers;

const char *message_next(Link *l, size_t *len);                      /* valid until the next call */
void link_confirmed(Link *l, int n);                                 /* n more messages of the request are stored */
void link_delivered(Link *l, const char *payload, size_t len);       /* one message has arrived */
void link_acked(Link *l, int n);                                     /* n messages were acknowledged */
void link_error(Link *l, const char *why, size_t len);               /* counted; the run is then a failure */
void fail(const char *why) __attribute__((noreturn));

void link_connect(Link *l);
bool link_read(Link *l);                 /* what has arrived; false when that was nothing */
void link_flush(Link *l);
void link_wait(Link *l);                 /* sends everything, then waits until something arrives */
void link_consumed(Link *l);             /* forgets the bytes before `used` */
void link_watch(Link *l);                /* from now on epoll tells */
#endif
