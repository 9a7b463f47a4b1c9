-- Raises QD408 for a statement that comes too late. The statements of the daemons end in `… WHERE clock_timestamp()
-- <= $n OR queend.late($n)`. The condition is evaluated for every row that the statement returns. The function has then
-- done its work and still holds its locks, and the error undoes the work. The sender gave the statement up at $n and
-- may have repeated it elsewhere (docs/inside/decisions/failures.md).
CREATE OR REPLACE FUNCTION queend.late(p_until timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RAISE EXCEPTION
          USING ERRCODE = 'QD408', MESSAGE = 'the statement comes after the moment its sender gave it up',
          DETAIL = queend.now_us()::text;
END $$;
