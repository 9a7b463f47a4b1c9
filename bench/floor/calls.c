/* The statements the daemon sends, with the parameters it would send. */
#include "floor.h"
#include <stdlib.h>
#include <string.h>

const char PUSH[] = "SELECT * FROM queend.push($1::bigint,$2::int[],$3::int[],$4::int[],$5::int[],$6::smallint[],$7::uuid[],$8::uuid[],$9::bytea[],$10::bytea[],$11::bytea[],$12::bigint[])";
const char POP[] = "SELECT * FROM queend.pop($1::bigint,$2::int[],$3::int[],$4::int[],$5::boolean[],$6::int[],$7::int[],$8::boolean[],$9::uuid[],$10::bigint[],$11::bigint[],$12::bigint[])";
const char ACK[] = "SELECT * FROM queend.ack($1::bigint,$2::int[],$3::int[],$4::uuid[],$5::int[],$6::bytea[],$7::bytea[],$8::int[],$9::bigint[],$10::int[],$11::int[],$12::text[])";

void params_begin(Params *p, bool with_version) {
    p->n = 0;
    if (!with_version) return;
    memset(p->version, 0, 8); /* 0: not compared */
    p->values[0] = p->version;
    p->lengths[0] = 8;
    p->formats[0] = 1;
    p->n = 1;
}

void params_array(Params *p, Array *a) {
    p->values[p->n] = a->bytes.p;
    p->lengths[p->n] = (int)a->bytes.len;
    p->formats[p->n++] = 1;
}

void push_params(Params *p, Batch *b) {
    Array *all[] = {&b->lanes, &b->part, &b->skip, &b->n, &b->kind, &b->lo, &b->hi, &b->ids, &b->body, &b->meta, &b->hint};
    params_begin(p, true);
    for (int i = 0; i < 11; i++) params_array(p, all[i]);
}

/* Columns: 0 ord, 1 status, 2 base, ... */
void push_result(Partitions *p, const int *row_of, PGresult *res) {
    for (int i = 0; i < PQntuples(res); i++) {
        if (from_big_endian(PQgetvalue(res, i, 1), 2)) continue;
        p->row_base[row_of[from_big_endian(PQgetvalue(res, i, 0), 4)]] = (int64_t)from_big_endian(PQgetvalue(res, i, 2), 8);
    }
}

void pop_params(Params *p, Pops *c) {
    Array *all[] = {&c->req, &c->part, &c->group_of, &c->fresh, &c->r_budget, &c->r_parts, &c->r_auto, &c->r_lease, &c->r_lease_us, &c->r_delay, &c->r_window};
    const uint32_t types[] = {INT4, INT4, INT4, BOOL, INT4, INT4, BOOL, UUID, INT8, INT8, INT8};
    for (int i = 0; i < 11; i++) array_begin(all[i], types[i]);
    for (int i = 0; i < c->requests; i++) {
        unsigned char *lease = c->leases[i];
        big_endian(lease, random_next(random_fresh), 8);
        big_endian(lease + 8, random_next(random_fresh), 8);
        array_int(&c->req, i + 1);
        array_int(&c->part, c->parts.ids[c->at]);
        array_int(&c->group_of, c->group);
        array_int(&c->fresh, c->first_round);
        array_int(&c->r_budget, c->budget);
        array_int(&c->r_parts, 1);
        array_int(&c->r_auto, !c->lease);
        array_put(&c->r_lease, lease, 16);
        array_int(&c->r_lease_us, 60000000);
        array_int(&c->r_delay, 0);
        array_int(&c->r_window, 0);
        if (++c->at == c->parts.n) { c->at = 0; c->first_round = false; }
    }
    params_begin(p, true);
    for (int i = 0; i < 11; i++) { array_end(all[i]); params_array(p, all[i]); }
}

/* Columns: 0 ord, 1 status, 2 attempt, 3 first, 4 take, 5 base, 6 n, 7 created_at, 8 ids, ... */
int pop_result(Pops *c, PGresult *res) {
    int total = 0, rows = PQntuples(res), last = -1;
    static Text ids;
    static const char zeros[65536];
    Array *all[] = {&c->a_part, &c->a_group, &c->a_lease, &c->a_n, &c->a_ids, &c->a_status, &c->a_limit, &c->a_delay, &c->f_row, &c->f_idx, &c->f_error};
    const uint32_t types[] = {INT4, INT4, UUID, INT4, BYTEA, BYTEA, INT4, INT8, INT4, INT4, TEXT};
    for (int i = 0; i < 11; i++) array_begin(all[i], types[i]);
    for (int i = 0; i <= rows; i++) {
        int ord = i < rows ? (int)from_big_endian(PQgetvalue(res, i, 0), 4) : -2;
        if (last >= 0 && ord != last) { /* one candidate's rows are complete */
            int n = (int)(ids.len / 16);
            array_put(&c->a_part, c->part.bytes.p + 20 + 8 * last + 4, 4);
            array_int(&c->a_group, c->group);
            array_put(&c->a_lease, c->leases[last], 16);
            array_int(&c->a_n, n);
            array_put(&c->a_ids, ids.p, ids.len);
            array_put(&c->a_status, zeros, (size_t)n);
            array_int(&c->a_limit, 3);
            array_int(&c->a_delay, 0);
            last = -1;
        }
        if (i == rows || from_big_endian(PQgetvalue(res, i, 1), 2) != 1) continue;
        if (ord != last) { last = ord; ids.len = 0; }
        int take = (int)from_big_endian(PQgetvalue(res, i, 4), 4);
        int64_t skip = (int64_t)(from_big_endian(PQgetvalue(res, i, 3), 8) - from_big_endian(PQgetvalue(res, i, 5), 8));
        if (skip < 0 || (skip + take) * 16 > PQgetlength(res, i, 8)) fatal("pop returned a row that does not hold its records");
        text_add(&ids, PQgetvalue(res, i, 8) + 16 * skip, 16 * (size_t)take);
        total += take;
    }
    for (int i = 0; i < 11; i++) array_end(all[i]);
    c->acked = total;
    return total;
}

void ack_params(Params *p, Pops *c) {
    Array *all[] = {&c->a_part, &c->a_group, &c->a_lease, &c->a_n, &c->a_ids, &c->a_status, &c->a_limit, &c->a_delay, &c->f_row, &c->f_idx, &c->f_error};
    params_begin(p, true);
    for (int i = 0; i < 11; i++) params_array(p, all[i]);
}

/* Columns: 0 ord, 1 status, 2 codes, ... */
int ack_result(Pops *c, PGresult *res) {
    int good = 0;
    for (int i = 0; i < PQntuples(res); i++)
        for (int k = 0; k < PQgetlength(res, i, 2); k++) good += PQgetvalue(res, i, 2)[k] & 1;
    if (good != c->acked) fatal("%d of %d acknowledgements succeeded", good, c->acked);
    return good;
}
