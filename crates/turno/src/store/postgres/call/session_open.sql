-- What a new session is connected to, and its limits. $1 the process that greeted, $2 lock_timeout, $3 statement_timeout; null
-- leaves a limit as it is, and one that the role or the database has set lower stays. Behind a pooler another process answers,
-- and nothing is set: its server connections are shared. No index.
select
    pg_backend_pid() as process,
    pg_is_in_recovery() or current_setting('transaction_read_only')::boolean as read_only,
    case
        when pg_backend_pid() = $1
            and $2::text is not null
            and (current_setting('lock_timeout')::interval = '0' or current_setting('lock_timeout')::interval > $2::text::interval)
            then set_config('lock_timeout', $2, false)
    end as lock_timeout,
    case
        when pg_backend_pid() = $1
            and $3::text is not null
            and (current_setting('statement_timeout')::interval = '0' or current_setting('statement_timeout')::interval > $3::text::interval)
            then set_config('statement_timeout', $3, false)
    end as statement_timeout
