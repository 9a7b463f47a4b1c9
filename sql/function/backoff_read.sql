-- The option retryBackoff as it is kept: {"steps": [ms, …]} or {"initial", "multiplier", "max", "jitter"}; NULL where there is none.
-- p_option: a list of 1 to 32 pauses in ms, or {"type": "exponential", "initial": ms, "multiplier": 1 … 1000 (2), "max": ms (3600000), "jitter": 0 … 1 (0)}.
-- Anything else is an error (invalid_parameter_value), worded for whoever configures.
CREATE OR REPLACE FUNCTION queend.backoff_read(p_option jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    longest CONSTANT bigint := 2147483647;
    o       jsonb;
BEGIN
    IF p_option IS NULL OR jsonb_typeof(p_option) = 'null' THEN
        RETURN NULL;
    END IF;
    IF jsonb_typeof(p_option) = 'array' THEN
        IF jsonb_array_length(p_option) NOT BETWEEN 1 AND 32
           OR EXISTS (SELECT FROM jsonb_array_elements(p_option) AS e (ms)
                       WHERE CASE WHEN jsonb_typeof(e.ms) = 'number' THEN e.ms::numeric NOT BETWEEN 0 AND longest OR e.ms::numeric % 1 <> 0 ELSE true END) THEN
            RAISE EXCEPTION 'retryBackoff must have 1 to 32 pauses, each a whole number of ms from 0 to %', longest USING ERRCODE = 'invalid_parameter_value';
        END IF;
        RETURN jsonb_build_object('steps', p_option);
    END IF;
    IF jsonb_typeof(p_option) <> 'object' OR p_option->>'type' IS DISTINCT FROM 'exponential' THEN
        RAISE EXCEPTION 'retryBackoff must be a list of ms or an object of type exponential' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    o := jsonb_build_object('multiplier', 2, 'max', 3600000, 'jitter', 0) || jsonb_strip_nulls(p_option);
    IF EXISTS (SELECT FROM (VALUES ('initial', 1, longest, true), ('max', 1, longest, true), ('multiplier', 1, 1000, false), ('jitter', 0, 1, false)) AS v (name, lo, hi, whole)
                WHERE CASE WHEN jsonb_typeof(o->v.name) IS DISTINCT FROM 'number' THEN true
                           ELSE (o->>v.name)::numeric NOT BETWEEN v.lo AND v.hi OR v.whole AND (o->>v.name)::numeric % 1 <> 0 END) THEN
        RAISE EXCEPTION 'retryBackoff needs initial and max, whole numbers of ms from 1 to %, multiplier from 1 to 1000 and jitter from 0 to 1', longest
              USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN jsonb_build_object('initial', o->'initial', 'multiplier', o->'multiplier', 'max', o->'max', 'jitter', o->'jitter');
END $$;
