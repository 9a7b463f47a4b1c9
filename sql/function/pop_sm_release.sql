-- Pop, step EMPTY: gives the lease back if it is still ours.
CREATE OR REPLACE FUNCTION queend.pop_sm_release(p_part int, p_group int, p_lease uuid) RETURNS boolean
LANGUAGE sql AS $$
    SELECT r.released FROM queend.release(ARRAY[p_part], ARRAY[p_group], ARRAY[p_lease]) AS r
$$;
