-- The next ids of a partition for a daemon that is to remember them, as ids_seen has them: from where its knowledge ends, if
-- that counts (ids_known), else from the first. Without the lane: a push compares the head before it believes any of it.
CREATE OR REPLACE FUNCTION queend.ids_learn(p_part int, p_known bigint, p_known_at bigint) RETURNS bytea
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN queend.ids_seen(p_part, queend.ids_known(p_part, p_known, p_known_at));
END $$;
