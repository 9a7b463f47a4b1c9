-- The newest message of a partition, by the partition's number; no row where none is stored. For the views of the schema queen: its result stays as it is.
CREATE OR REPLACE FUNCTION queend.newest_message(part int, OUT message_id uuid, OUT created_at timestamptz)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    SELECT queend.message_id(l.created_at, part, l.base + l.n - 1), queend.moment(l.created_at) INTO message_id, created_at
      FROM queend.log l WHERE l.partition_id = part AND l.base >= COALESCE((SELECT f.floor FROM queend.floors f WHERE f.partition_id = part), 0) ORDER BY l.base DESC LIMIT 1;
END $$;
