-- The offset of each id, -1 where the partition does not hold it. First in the window that was delivered last, one or two
-- rows; only what is not there is looked up in the whole partition. Of records that share their id (no push stores
-- such, but a log may hold them) the first that is not committed, else the last; of an id that is named twice, the second, and so on.
CREATE OR REPLACE FUNCTION queend.ack_offsets(p_part int, p_row bigint, p_committed bigint, p_end bigint, p_ids bytea) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_found bigint[];
    v_rest  bytea;
BEGIN
    SELECT array_agg(CASE WHEN cardinality(w.at) > 1 THEN w.at[LEAST((SELECT count(*) FROM queend.id_spread(p_ids) AS x WHERE x.id = i.id AND x.ord <= i.ord), cardinality(w.at))]
                          ELSE COALESCE(w.at[1], -1) END ORDER BY i.ord), string_agg(i.id, '' ORDER BY i.ord) FILTER (WHERE w.at IS NULL)
      INTO v_found, v_rest
      FROM queend.id_spread(p_ids) AS i
      LEFT JOIN (SELECT m.ord, array_agg(m.at ORDER BY m.at) AS at FROM queend.ids_match(p_part, p_row, p_end + 1, p_ids) AS m
                  WHERE m.at > p_committed GROUP BY m.ord) AS w ON w.ord = i.ord;
    IF v_rest IS NULL THEN
        RETURN v_found;
    END IF;
    RETURN (SELECT array_agg(CASE WHEN v_found[i.ord + 1] >= 0 THEN v_found[i.ord + 1] ELSE COALESCE(f.found, -1) END ORDER BY i.ord)
              FROM queend.id_spread(p_ids) AS i
              LEFT JOIN (SELECT substr(v_rest, 16 * r.ord + 1, 16) AS id, COALESCE(min(r.found) FILTER (WHERE r.found > p_committed), max(r.found)) AS found
                           FROM queend.ids_find(p_part, v_rest) AS r GROUP BY 1) AS f ON f.id = i.id);
END $$;
