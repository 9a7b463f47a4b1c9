-- Takes back claims that were acknowledged at once and reached nobody: records p_first … p_stop - 1 are delivered again.
-- Only where the cursor still stands where such a claim left it, at p_stop - 1 and free: what was claimed behind it since, or a seek,
-- goes before. One row per element (0-based ord): whether it was taken back. Every daemon hears of it.
CREATE OR REPLACE FUNCTION queend.take_back(p_part int[], p_group int[], p_first bigint[], p_stop bigint[])
RETURNS TABLE (ord int, taken boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    r record;
BEGIN
    PERFORM queend.cursors_lock(p_part, p_group);
    FOR r IN SELECT a.i::int - 1 AS i, a.part, a.grp, a.first, a.stop
               FROM unnest(p_part, p_group, p_first, p_stop) WITH ORDINALITY AS a (part, grp, first, stop, i)
              ORDER BY a.part, a.grp, a.stop DESC      -- the newest claim of a cursor first, so that all of them can be taken back
    LOOP
        UPDATE queend.cursors SET committed = r.first - 1, lease_end = r.first - 1, row_base = queend.row_of(r.part, r.first), attempt = 0
         WHERE partition_id = r.part AND group_id = r.grp AND committed = r.stop - 1 AND lease_end = r.stop - 1 AND lease_until = 0;
        ord := r.i;
        taken := FOUND;
        IF taken THEN
            PERFORM queend.lease_freed(ARRAY[r.part], ARRAY[r.grp]);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
