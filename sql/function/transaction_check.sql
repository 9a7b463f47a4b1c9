-- What would come of an acknowledgement inside a transaction: per record 1 fine, 8 message not found, 16 lease not live.
CREATE OR REPLACE FUNCTION queend.transaction_check(p_part int, p_group int, p_lease uuid, p_ids bytea, p_now bigint) RETURNS bytea
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (
    SELECT string_agg(CASE WHEN f.at < 0 THEN '\x08'::bytea
                           WHEN p_lease IS NOT NULL AND NOT COALESCE(k.lease_id = p_lease AND k.lease_until > p_now, false) THEN '\x10'
                           ELSE '\x01' END, '' ORDER BY f.ord)
      FROM (SELECT 1) AS always
      LEFT JOIN queend.cursors k ON k.partition_id = p_part AND k.group_id = p_group
      CROSS JOIN LATERAL unnest(queend.ack_offsets(p_part, k.row_base, k.committed, k.lease_end, p_ids)) WITH ORDINALITY AS f (at, ord));
END $$;
