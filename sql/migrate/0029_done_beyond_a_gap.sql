-- What a consumer group has done of a partition beyond the first record that it has not: offsets, all above committed. NULL: nothing,
-- as long as whole deliveries are acknowledged in order.
ALTER TABLE queend.cursors ADD COLUMN beyond int8multirange;
