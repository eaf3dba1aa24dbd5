-- Purpose: the roles exist, where the owner may create roles, and have their rights.
-- Index:   none.

do $$
begin
  perform turno.role_create(turno.setting_value('app_role')::name);
  perform turno.role_create(turno.setting_value('operator_role')::name);
  perform turno.roles_grant();
end
$$;
