-- Whether a row of the log may have a message of a status (message_list.sql): the row begins at p_base and ends with p_last, its
-- partition is consumed up to p_done and leased (partition_done.sql). NULL is every status. One row, so that it becomes part of the statement.
CREATE OR REPLACE FUNCTION queend.row_may(p_status text, p_part int, p_base bigint, p_last bigint, p_done bigint, p_leased boolean)
RETURNS TABLE (may boolean)
LANGUAGE sql STABLE AS $$
    SELECT CASE p_status WHEN 'completed' THEN p_done >= p_base
                         WHEN 'processing' THEN p_leased AND p_done < p_last
                         WHEN 'pending' THEN NOT p_leased AND (p_done IS NULL OR p_done < p_last)
                         WHEN 'dead_letter' THEN EXISTS (SELECT FROM queend.dead_letters d
                                                          WHERE d.partition_id = p_part AND d.record_offset >= p_base AND d.record_offset <= p_last)
                         ELSE p_status IS NULL END
$$;
