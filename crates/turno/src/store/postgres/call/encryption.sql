-- Whether the connection that asks is encrypted, and whether it stays on one machine. No index: views of the server's state.
select
  s.ssl as encrypted,
  s.version,
  s.cipher,
  inet_server_addr() is null
    or inet_server_addr() <<= inet '127.0.0.0/8'
    or inet_server_addr() = inet '::1'
    or host(inet_server_addr()) = host(inet_client_addr()) as local
from pg_stat_ssl s
where s.pid = pg_backend_pid()
