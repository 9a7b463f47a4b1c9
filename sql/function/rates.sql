-- Rates over all partitions of a queue. Owns queend.rates: a bucket for each group, or for all groups together (group
-- 0). Daemons take tokens in slices, several times a second, and return unused tokens; a pop costs no statement. Locks:
-- buckets ascending, with SKIP LOCKED, before all other locks of their statement.

-- Takes tokens from buckets, and returns tokens to them. Each element: the queue, the group (0: all), tokens wanted (0:
-- only return) and tokens returned. Returns one row each:
--   granted  At most the tokens in the bucket. At least the tokens wanted if the bucket has them, and up to those of
--            0.1 s. All tokens wanted if the queue has no such rate. The tokens returned if another session has locked
--            the bucket.
--   next_at  When there are more tokens, by the database's clock; 0: now. At a high rate that is when the tokens of
--            0.02 s are there.
CREATE OR REPLACE FUNCTION queend.rates_take(p_queue int[], p_group int[], p_want int[], p_back int[])
RETURNS TABLE (ord int, granted int, next_at bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    r record;
    t record;
BEGIN
    FOR r IN SELECT i.ord::int - 1 AS ord, i.queue, i.grp, i.want, i.back, s.most, s.period
               FROM unnest(p_queue, p_group, p_want, p_back) WITH ORDINALITY AS i (queue, grp, want, back, ord)
               LEFT JOIN LATERAL queend.rate_of(i.queue, i.grp) AS s ON true
              ORDER BY i.queue, i.grp LOOP
        ord := r.ord;
        SELECT * INTO t
          FROM queend.rate_take(r.queue, r.grp,
                                CASE WHEN r.want > 0
                                          THEN GREATEST(r.want, ceil(r.most / (r.period * 10.0))::int) ELSE 0 END,
                                r.back) AS x;
        granted := COALESCE(t.granted, r.back);
        next_at := t.next_at;
        RETURN NEXT;
    END LOOP;
END $$;

-- Returns the rate of a queue's group, or of all its groups together (group 0). Column most: messages in a period of
-- seconds (0: no rate). Column burst: messages at once.
CREATE OR REPLACE FUNCTION queend.rate_of(p_queue int, p_group int, OUT most int, OUT period int, OUT burst int)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    SELECT CASE WHEN p_group = 0 THEN q.queue_rate_limit ELSE q.group_rate_limit END, q.rate_period,
           CASE WHEN p_group = 0 THEN queend.rate_burst(q.queue_rate_limit, q.queue_rate_burst, q.rate_period)
                ELSE queend.rate_burst(q.group_rate_limit, q.group_rate_burst, q.rate_period) END
      INTO most, period, burst FROM queend.queues q WHERE q.id = p_queue;
END $$;

-- Takes at most p_want tokens from one bucket, after it returned p_back to the bucket. Column granted: NULL if another
-- session has locked the bucket, p_want if there is no rate. Column next_at as in rates_take.
CREATE OR REPLACE FUNCTION queend.rate_take(p_queue int, p_group int, p_want int, p_back int, OUT granted int,
    OUT next_at bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s       record;
    v_step  numeric;
    v_ready numeric;
    v_now   bigint;
BEGIN
    next_at := 0;
    SELECT * INTO s FROM queend.rate_of(p_queue, p_group) AS x;
    IF COALESCE(s.most, 0) = 0 THEN
        granted := p_want;
        RETURN;
    END IF;
    v_step := s.period * 1000000.0 / s.most;
    SELECT x.ready INTO v_ready FROM queend.rates x WHERE x.queue_id = p_queue AND x.group_id = p_group
       FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        INSERT INTO queend.rates (queue_id, group_id, ready) VALUES (p_queue, p_group, -1e30)
            ON CONFLICT DO NOTHING;      -- a new bucket is full
        SELECT x.ready INTO v_ready FROM queend.rates x WHERE x.queue_id = p_queue AND x.group_id = p_group
           FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            next_at := queend.now_us() + 10000;
            RETURN;
        END IF;
    END IF;
    v_now := queend.now_us();
    -- The bucket has at most `burst` tokens. v_ready is at most one step ahead, because the rate may have changed.
    v_ready := GREATEST(LEAST(v_ready, v_now + v_step) - v_step * p_back, v_now - v_step * (s.burst - 1));
    granted := GREATEST(LEAST(CASE WHEN v_ready <= v_now THEN floor((v_now - v_ready) / v_step) + 1 ELSE 0 END,
                              p_want), 0)::int;
    v_ready := v_ready + v_step * granted;
    UPDATE queend.rates x SET ready = v_ready WHERE x.queue_id = p_queue AND x.group_id = p_group;
    v_ready := ceil(v_ready + v_step * (LEAST((s.burst + 1) / 2, GREATEST(s.most / (s.period * 50), 1)) - 1));
    IF v_ready > v_now THEN
        next_at := v_ready;
    END IF;
END $$;

-- Returns how many of p_take records one pop in SQL may deliver to the group, and takes as many tokens from both
-- buckets.
CREATE OR REPLACE FUNCTION queend.rates_reserve(p_queue int, p_group int, p_take int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
    v_all int;
    v_own int;
BEGIN
    v_all := COALESCE((SELECT r.granted FROM queend.rate_take(p_queue, 0, p_take, 0) AS r), 0);
    v_own := COALESCE((SELECT r.granted FROM queend.rate_take(p_queue, p_group, v_all, 0) AS r), 0);
    IF v_own < v_all THEN
        PERFORM queend.rate_take(p_queue, 0, 0, v_all - v_own);
    END IF;
    RETURN v_own;
END $$;

-- Returns the tokens that a pop in SQL did not need to both buckets (rates_reserve).
CREATE OR REPLACE FUNCTION queend.rates_return(p_queue int, p_group int, p_left int) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_left > 0 THEN
        PERFORM queend.rate_take(p_queue, 0, 0, p_left);
        PERFORM queend.rate_take(p_queue, p_group, 0, p_left);
    END IF;
END $$;
