-- What a new session is connected to. The process id tells a server from a pooler; a standby is read-only. No index.
select
    pg_backend_pid() as process,
    pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as read_only
