-- Purpose: one shared hold more.
-- Parameters: :resource :token :owner :now :expires_at :min_until :max_until :user :service :description
--             :host :pid :request. Index: the primary key.
insert into turno_lock_hold (
  resource, token, owner, holds, acquired_at, expires_at, min_until, max_until,
  user, service, description, host, pid, hold_ids)
values (
  :resource, :token, :owner, 1, :now, :expires_at, :min_until, :max_until,
  :user, :service, :description, :host, :pid, :request)
