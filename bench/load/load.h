/* What the rooms of the load generator share. One thread, one epoll, no allocation per request.
 *   main.c  command line, clock, phases, report     http.c  connections and answers
 *   push.c  requests that store messages            pop.c   requests that take and acknowledge them
 *   binary.c  bodies and answers of the 2.x client   link.c  plain, or through TLS
 *   text.c  ids, numbers, histogram                payload.c  what a message carries */
#ifndef QUEEND_LOAD_H
#define QUEEND_LOAD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

typedef struct Role Role;
typedef struct Conn Conn;

/* Log-linear histogram of microseconds: 32 steps per power of two, so a percentile is at most 3 % off. */
enum { HIST_STEPS = 32, HIST_SIZE = 40 * HIST_STEPS, SERIES_MAX = 900 };
typedef struct { uint64_t count[HIST_SIZE]; uint64_t total; int64_t max; double sum; } Hist;
void hist_add(Hist *h, int64_t us);
double hist_at(const Hist *h, double share); /* milliseconds */
void hist_print(const char *what, const Hist *h); /* as members of a JSON object, a comma before each */

typedef struct { char *p; size_t len, cap; } Text;
void text_room(Text *t, size_t more);
void text_add(Text *t, const void *p, size_t n);
void text_print(Text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

uint64_t random_next(uint64_t state[2]);
extern uint64_t random_seeded[2]; /* partitions and payloads: the same in every run */
extern uint64_t random_fresh[2];  /* ids: never the same */
void id_write(char *at, int version, int64_t wall_us); /* 36 characters, version 7 (strictly rising) or 4 */
void digits_write(char *at, int n, uint64_t value);
void payload_build(Text *t, size_t *order, size_t *at); /* and where its order number (8) and time (16 digits) stand */

typedef struct { char *bytes; size_t len; size_t *id, *order, *part, *at, *queue; } Template; /* offsets of what changes */

enum { ROLE_PUSH, ROLE_POP };
enum { FORM_JSON, FORM_PLAIN, FORM_FRAMED };
enum { SPREAD_RANDOM, SPREAD_CYCLE, SPREAD_BLOCK }; /* partitions (and queues) of a request's items */
enum { QUEUE_DIGITS = 5, QUEUES_MAX = 99999, PARTITIONS_MAX = 9999999 };
struct Role {
    Role *next;
    char name[32];
    int kind, conns, partitions, items, ids, batch, claim, timeout_ms;
    int spread, part_digits, queues;
    int form;                      /* push: of the body */
    bool counts;                   /* push: answers in numbers */
    bool frames;                   /* pop: framed answers */
    int depth;                     /* pop without lease: requests in flight per connection (HTTP pipelining) */
    char mark;                     /* push: first letter of the partitions; pop: only messages of such partitions count for delivery */
    bool wait, lease;              /* pop: long poll; lease and ack/batch instead of autoAck */
    bool autopilot;                /* pop: as the 2.x client asks by default: the server chooses batch and partitions */
    bool measure_delivery;         /* pop: latency = now - the payload's "at" */
    double rate;                   /* push: requests per second on a fixed schedule; 0 = closed loop */
    int64_t count;                 /* stop after so many messages; 0 = by time alone */
    int64_t least;                 /* messages without which the window goes on */
    char queue[128], group[128];
    char into[128];                /* pop with lease: the acknowledgements go in a transaction that pushes as many messages there */
    /* fixed at the start */
    Template *templates;
    int n_templates;
    Text pop_request;
    size_t pop_queue;              /* where the queue's digits stand in it */
    Text tx_payload;
    size_t tx_order, tx_at;
    uint64_t turn;                 /* cycle: next item; block: next request */
    /* open loop */
    int64_t next_due;
    double due_exact;
    Conn *idle;
    /* what happened inside the window; `stored_all` from the first request to the last */
    uint64_t requests, messages, duplicates, empty, errors, stored_all, taken_all, acked_all;
    uint64_t droughts;             /* one ends when messages come or are acknowledged */
    int dry;                       /* connections with DRY_ANSWERS empty answers in this drought */
    bool finished;
    char last_error[160];
    Hist latency, delivery;
    Hist part_latency, part_delivery; /* since the last part was told */
    uint64_t part_messages, part_errors;
    uint32_t series[SERIES_MAX];   /* messages per second of the window */
};

enum { CONN_CONNECTING, CONN_READY, CONN_BUSY, CONN_CLOSED };
struct Conn {
    Role *role;
    Conn *idle_next;
    int fd, state, number;           /* among the connections of its role */
    struct ssl_st *ssl;            /* NULL: plain */
    bool want_write, acking;
    uint64_t drought;              /* the drought that `empties` counts in */
    int empties;
    Text out, in;
    size_t sent, body_at, body_len;  /* body_at = 0: the head has not arrived yet */
    bool chunked;
    int status;
    int64_t began;                   /* when the request was meant to start, monotonic us */
    uint32_t items;                  /* of the request in flight */
    int flying;                      /* pops in flight */
    Text ack;                        /* pop with lease: the ack request, built from the answer */
};

extern struct Load {
    int epoll, connecting;
    int64_t now, wall_offset;        /* monotonic us; + wall_offset = Unix us */
    int64_t window_began, window_ends;
    bool measuring, stopping;
    char host[64];
    int port;
    int conns;                       /* of all roles */
    uint32_t next_source;            /* which loopback address a new connection comes from */
} load;
int64_t clock_now(void);

void link_prepare(void);
bool link_ready(Conn *c);
ssize_t link_send(Conn *c, const void *p, size_t n);
ssize_t link_receive(Conn *c, void *p, size_t n);
void link_close(Conn *c);
void conn_open(Conn *c);
void conn_send(Conn *c);             /* sends c->out; the answer arrives at role_answer */
void conn_event(Conn *c, uint32_t events);
void role_answer(Conn *c, const char *body, size_t len);
void role_next(Conn *c);             /* the next request of this connection, or none */
void role_error(Conn *c, const char *why);
void role_count(Conn *c, uint64_t messages);

void push_prepare(Role *r);
void push_request(Conn *c);
void push_answer(Conn *c, const char *body, size_t len);
void binary_prepare(Role *r, Template *t);
void binary_request(Conn *c, Template *t, uint64_t partition);
uint64_t binary_popped(const char *body, size_t len);
void pop_prepare(Role *r);
void pop_request(Conn *c);
void pop_answer(Conn *c, const char *body, size_t len);
void pop_empty(Conn *c);
void ack_answer(Conn *c, const char *body, size_t len);
size_t find_count(const char *p, size_t n, const char *word);
void text_told(const char *text);
int64_t clock_of(clockid_t which); /* us */
double cpu_seconds(void);
#endif
