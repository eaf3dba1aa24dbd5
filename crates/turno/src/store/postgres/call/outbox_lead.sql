-- Tries to take the advisory lock of those that relay alone, for this session. $1 lock_id.
select pg_try_advisory_lock($1) as alone
