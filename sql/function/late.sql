-- Where the statements of the daemons end that come too late: `… WHERE clock_timestamp() <= $n OR queend.late($n)`. The
-- condition is looked at for every row they return, when the function has done its work and holds all its locks; the
-- error undoes it. Who sent the statement has given it up at that moment, and may have done it again elsewhere
-- (docs/inside/decisions/failures.md).
CREATE OR REPLACE FUNCTION queend.late(p_until timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION
          USING ERRCODE = 'QD408', MESSAGE = 'the statement comes after the moment its sender gave it up',
          DETAIL = queend.now_us()::text;
END $$;
