/* The floor: what the hot SQL functions cost when nothing stands before them. Rooms:
 *   main.c  command line, connections, the closed loop     batch.c  record batches and binary arrays     calls.c  the statements */
#ifndef QUEEND_FLOOR_H
#define QUEEND_FLOOR_H
#include "load.h"
#include <libpq-fe.h>

enum { INT2 = 21, INT4 = 23, INT8 = 20, BOOL = 16, UUID = 2950, BYTEA = 17, TEXT = 25 };
enum { ROW_RECORDS = 1000, ROW_BYTES = 65536, PARAMS_MAX = 16 };

typedef struct { Text bytes; uint32_t type; int n; bool nulls; } Array; /* a PostgreSQL array parameter, binary */
void array_begin(Array *a, uint32_t type);
void array_put(Array *a, const void *value, size_t n);
void array_null(Array *a);
void array_int(Array *a, int64_t value);
void array_end(Array *a);
void big_endian(void *to, uint64_t value, int bytes);
uint64_t from_big_endian(const void *from, int bytes);

typedef struct { Array lanes, part, skip, n, kind, lo, hi, ids, body, meta, hint; Text copy; int messages, *row_of, rows, room; } Batch; /* row_of: place of a row's partition */
typedef struct { int *ids, n; int64_t *row_base; } Partitions; /* row_base: where its newest row begins, as far as known */
int partition_order(const void *a, const void *b); /* for qsort: by lane, as batch_build needs them */
/* `messages` new messages at random over the partitions, as rows of the log; `heads` (next offset per partition) only for COPY. */
void batch_build(Batch *b, const Partitions *p, int messages, int id_version, int64_t *heads);

typedef struct { const char *values[PARAMS_MAX]; int lengths[PARAMS_MAX], formats[PARAMS_MAX], n; char version[8]; } Params;
void params_begin(Params *p, bool with_version);
void params_array(Params *p, Array *a);

extern const char PUSH[], POP[], ACK[];
void push_params(Params *p, Batch *b);
void push_result(Partitions *p, const int *row_of, PGresult *res);

typedef struct { int requests, budget, at, group; bool lease, first_round; Partitions parts;
    Array req, part, group_of, fresh, r_budget, r_parts, r_auto, r_lease, r_lease_us, r_delay, r_window;
    Array a_part, a_group, a_lease, a_n, a_ids, a_status, a_limit, a_delay, f_row, f_idx, f_error;
    unsigned char (*leases)[16]; int acked; } Pops;
void pop_params(Params *p, Pops *c);
int pop_result(Pops *c, PGresult *res);  /* messages delivered; with leases also gathers the ack of all of them */
void ack_params(Params *p, Pops *c);
int ack_result(Pops *c, PGresult *res);  /* messages acknowledged; fewer than delivered is fatal */
void fatal(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#endif
