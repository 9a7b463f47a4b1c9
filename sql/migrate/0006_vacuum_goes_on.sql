-- A vacuum of the log must be able to end. With autosummarize, pushes leave work items behind ("summarize this block range"), and the
-- next automatic worker, 15 s later, takes them up: it wants the lock a vacuum of the log holds, and PostgreSQL cancels an automatic
-- vacuum somebody has waited for for a second (deadlock_timeout). A vacuum that needed longer than that never ended. The daemon
-- summarizes ranges itself as soon as they are full, and does not wait; so does every vacuum that ends.
ALTER INDEX queend.log_by_time SET (autosummarize = off);
