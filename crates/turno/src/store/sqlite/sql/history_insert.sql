-- Purpose: one line of the audit trail.
insert into turno_lock_history (
  at, event, resource, token, mode, owner, user, service, description, host, pid,
  acquired_at, expires_at, actor, reason, request)
values (
  :now, :event, :resource, :token, :mode, :owner, :user, :service, :description, :host, :pid,
  :acquired_at, :expires_at, :actor, :reason, :request)
