-- Takes note of the delivery moments of a row of the log that was just stored, in the transaction that stored it.
CREATE OR REPLACE FUNCTION queend.schedule_add(p_part int, p_base bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_meta bytea := (SELECT l.meta FROM queend.log l WHERE l.partition_id = p_part AND l.base = p_base);
BEGIN
    INSERT INTO queend.schedule (due, first_offset, last_offset, partition_id)
    SELECT x.due, p_base + min(x.ord), p_base + max(x.ord), p_part
      FROM (SELECT r.ord, m.due, r.ord - row_number() OVER (PARTITION BY m.due ORDER BY r.ord) AS run
              FROM queend.meta_records(v_meta) AS r CROSS JOIN LATERAL queend.meta_piece(r.piece) AS m
             WHERE get_byte(r.piece, 0) & 8 <> 0) AS x
     GROUP BY x.due, x.run;
    IF FOUND THEN
        UPDATE queend.catalog c SET scheduled = true WHERE NOT c.scheduled;
    END IF;
END $$;
