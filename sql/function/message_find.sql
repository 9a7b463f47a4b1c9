-- The offset of the record with this id (16 bytes) in a partition; NULL: there is none, or it was deleted.
CREATE OR REPLACE FUNCTION queend.message_find(p_part int, p_id bytea) RETURNS bigint
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN (SELECT max(f.found) FROM queend.ids_find(p_part, p_id) AS f
             WHERE NOT EXISTS (SELECT FROM queend.holes h WHERE h.partition_id = p_part AND h.record_offset = f.found));
END $$;
