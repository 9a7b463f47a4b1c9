-- The arrays of queend.push for messages that are given one by one: a row of the log per partition and 1000 records or about 64 KB.
-- Items that repeat the partition and id of an earlier one are left out. items: the others (from 1), in the order they lie in the rows;
-- copies, firsts: those left out, and whom each repeats. lanes: ascending.
CREATE OR REPLACE FUNCTION queend.push_arrays(p_part int[], p_transaction text[], p_payload text[], p_trace uuid[], p_producer text[],
    OUT lanes int[], OUT parts int[], OUT skip int[], OUT n int[], OUT kind smallint[], OUT lo uuid[], OUT hi uuid[], OUT ids bytea[], OUT body bytea[], OUT meta bytea[],
    OUT items int[], OUT copies int[], OUT firsts int[])
LANGUAGE plpgsql IMMUTABLE AS $$
#variable_conflict use_column
BEGIN
    WITH item AS MATERIALIZED (
        SELECT u.ord::int AS ord, u.part, u.rid, convert_to(u.payload, 'UTF8') AS body,
               CASE WHEN u.trace IS NULL THEN 0 ELSE 1 END | CASE WHEN u.producer IS NULL THEN 0 ELSE 2 END
               | CASE WHEN u.transaction = encode(u.rid, 'hex')::uuid::text THEN 0 ELSE 4 END AS flags, u.trace, u.producer, u.transaction,
               first_value(u.ord::int) OVER (PARTITION BY u.part, u.rid ORDER BY u.ord) AS winner
          FROM (SELECT x.*, queend.record_id(x.transaction) AS rid
                  FROM unnest(p_part, p_transaction, p_payload, p_trace, p_producer) WITH ORDINALITY AS x (part, transaction, payload, trace, producer, ord)) AS u),
    kept AS MATERIALIZED (
        SELECT i.*, row_number() OVER w - 1 AS place, (sum(octet_length(i.body)) OVER w - octet_length(i.body)) / 65536 AS span
          FROM item i WHERE i.winner = i.ord WINDOW w AS (PARTITION BY i.part ORDER BY i.ord)),
    chunk AS MATERIALIZED (
        SELECT k.part, min(k.place) AS skip, count(*) AS n, string_agg(k.rid, '' ORDER BY k.ord) AS ids,
               '\x10' || string_agg(queend.varint_bytes(octet_length(k.body)), '' ORDER BY k.ord) || string_agg(k.body, '' ORDER BY k.ord) AS body,
               '\x10' || string_agg(queend.varint_bytes((k.place - k.base)::int) || set_byte('\x00', 0, k.flags)
                                    || CASE WHEN k.flags & 1 = 0 THEN '' ELSE uuid_send(k.trace) END
                                    || CASE WHEN k.flags & 2 = 0 THEN '' ELSE queend.varint_bytes(octet_length(k.producer)) || convert_to(k.producer, 'UTF8') END
                                    || CASE WHEN k.flags & 4 = 0 THEN '' ELSE queend.varint_bytes(octet_length(k.transaction)) || convert_to(k.transaction, 'UTF8') END,
                                    '' ORDER BY k.ord) FILTER (WHERE k.flags > 0) AS meta
          FROM (SELECT k.*, min(k.place) OVER (PARTITION BY k.part, k.place / 1000, k.span) AS base FROM kept k) AS k
         GROUP BY k.part, k.place / 1000, k.span),
    part AS MATERIALIZED (
        SELECT s.part, CASE WHEN s.sevens = s.n THEN 1 WHEN s.sevens = 0 THEN 2 ELSE 3 END AS kind, s.lo, s.hi
          FROM (SELECT k.part, count(*) AS n, count(*) FILTER (WHERE get_byte(k.rid, 6) >> 4 = 7) AS sevens,
                       (min(encode(k.rid, 'hex') COLLATE "C") FILTER (WHERE get_byte(k.rid, 6) >> 4 = 7))::uuid AS lo,
                       (max(encode(k.rid, 'hex') COLLATE "C") FILTER (WHERE get_byte(k.rid, 6) >> 4 = 7))::uuid AS hi
                  FROM kept k GROUP BY k.part) AS s)
    SELECT array_agg(c.part ORDER BY c.part, c.skip) AS parts, array_agg(c.skip::int ORDER BY c.part, c.skip) AS skip,
           array_agg(c.n::int ORDER BY c.part, c.skip) AS n, array_agg(p.kind::smallint ORDER BY c.part, c.skip) AS kind,
           array_agg(p.lo ORDER BY c.part, c.skip) AS lo, array_agg(p.hi ORDER BY c.part, c.skip) AS hi,
           array_agg(c.ids ORDER BY c.part, c.skip) AS ids, array_agg(c.body ORDER BY c.part, c.skip) AS body,
           array_agg(c.meta ORDER BY c.part, c.skip) AS meta,
           (SELECT array_agg(k.ord ORDER BY k.part, k.ord) FROM kept k) AS ord,
           (SELECT array_agg(i.ord ORDER BY i.ord) FROM item i WHERE i.winner <> i.ord) AS copy,
           (SELECT array_agg(i.winner ORDER BY i.ord) FROM item i WHERE i.winner <> i.ord) AS first
      INTO parts, skip, n, kind, lo, hi, ids, body, meta, items, copies, firsts
      FROM chunk c JOIN part p ON p.part = c.part;
    lanes := ARRAY(SELECT DISTINCT p & 63 AS lane FROM unnest(parts) AS p ORDER BY lane);
END $$;
