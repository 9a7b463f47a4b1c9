-- Deletes a message with its dead letters and traces. Cursors stay where they are.
CREATE OR REPLACE FUNCTION queen.delete_message_v1(partition_id text, transaction_id text) RETURNS jsonb
LANGUAGE sql AS $$
    SELECT jsonb_build_object('success', d.gone, 'partitionId', delete_message_v1.partition_id, 'transactionId', delete_message_v1.transaction_id,
                              'message', CASE WHEN d.gone THEN 'Message deleted successfully' ELSE 'Message not found' END)
      FROM (SELECT COALESCE(queend.message_delete(queend.partition_number(delete_message_v1.partition_id), queend.record_id(delete_message_v1.transaction_id)), false) AS gone) AS d
$$;
