-- Refuses names that no message can have, with the words of the HTTP routes (22023, invalid_parameter_value): a queue's name and a
-- partition's are at most 255 bytes, a transaction id has at most 255 characters. p_transaction NULL: one is made.
CREATE OR REPLACE FUNCTION queend.item_check(p_queue text, p_partition text, p_transaction text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_queue IS NULL OR p_queue = '' OR octet_length(p_queue) > 255 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'Queue must be a non-empty text of at most 255 bytes';
    ELSIF p_partition IS NULL OR octet_length(p_partition) > 255 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'Partition must be valid text of at most 255 bytes';
    ELSIF char_length(p_transaction) > 255 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'TransactionId must be valid text of at most 255 characters';
    END IF;
END $$;
