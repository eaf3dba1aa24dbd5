-- Purpose: refuse what no lock may have, naming the field and the remedy. Nothing is stored then.
-- Index:   none.

create or replace function turno.check_name(field text, value text, longest integer) returns void
language plpgsql
immutable
as $$
begin
  if value is null or value = '' then
    raise exception '% is empty', field
      using errcode = 'invalid_parameter_value', hint = format('Give %s 1 to %s bytes of text.', field, longest);
  end if;
  if octet_length(value) > longest then
    raise exception '% has % bytes, and % is the most', field, octet_length(value), longest
      using errcode = 'invalid_parameter_value', hint = 'Shorten it, or use a hash of it.';
  end if;
  if value ~ '[\u0001-\u001f\u007f-\u009f]' then
    raise exception '% has a control character', field
      using errcode = 'invalid_parameter_value', hint = 'Remove line breaks, tabs and other control characters.';
  end if;
end
$$;

-- The owner's limit, whatever max_ttl a caller gives. Callers ask only for more than the functions' own default, 24 hours.
create or replace function turno.check_max_ttl(ttl interval) returns void
language plpgsql
stable
as $$
begin
  if ttl > turno.setting_value('max_ttl')::interval then
    raise exception 'ttl is %, and % is the most in this database', ttl, turno.setting_value('max_ttl')
      using errcode = 'invalid_parameter_value',
        hint = 'Take a shorter lease and renew it. Or the owner of schema turno raises the setting max_ttl: '
               '`turno migrate --setting max_ttl=90d`, or select turno.setting_set(''max_ttl'', ''90 days'').';
  end if;
end
$$;

-- The largest payload that is accepted: the caller's limit, or the owner's if that is lower. Callers ask only when a payload is larger
-- than the functions' own default, 1 MiB.
create or replace function turno.check_max_payload(max_payload integer, largest integer) returns void
language plpgsql
stable
as $$
begin
  if largest > max_payload then
    raise exception 'payload has % bytes, and % is the most', largest, max_payload
      using errcode = 'invalid_parameter_value', hint = 'Store it elsewhere and keep a reference, or raise max_payload.';
  end if;
  if largest > turno.setting_value('max_payload')::integer then
    raise exception 'payload has % bytes, and % is the most in this database', largest, turno.setting_value('max_payload')
      using errcode = 'invalid_parameter_value',
        hint = 'Store it elsewhere and keep a reference. Or the owner of schema turno raises the setting max_payload: '
               '`turno migrate --setting max_payload=128MB`, or select turno.setting_set(''max_payload'', ''128MB'').';
  end if;
end
$$;

create or replace function turno.lock_check(ask turno.lock_ask) returns void
language plpgsql
as $$
begin
  perform turno.check_name('resource', ask.resource, 255);
  perform turno.check_name('owner', ask.owner, 255);
  if ask."user" is not null then perform turno.check_name('user', ask."user", 255); end if;
  if ask.service is not null then perform turno.check_name('service', ask.service, 255); end if;
  if ask.description is not null then perform turno.check_name('description', ask.description, 1000); end if;
  if ask.host is not null then perform turno.check_name('host', ask.host, 255); end if;
  if ask.ttl is null or ask.ttl < '1 millisecond' then
    raise exception 'ttl is %, and must be at least 1 ms', coalesce(ask.ttl::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Give the longest time that the work can take between two renewals, such as 30 seconds.';
  end if;
  if ask.max_ttl is null or ask.ttl > ask.max_ttl then
    raise exception 'ttl is %, and % is the most', ask.ttl, coalesce(ask.max_ttl::text, 'null')
      using errcode = 'invalid_parameter_value', hint = 'Take a shorter lease and renew it, or raise max_ttl.';
  end if;
  if ask.ttl > '24 hours' then
    perform turno.check_max_ttl(ask.ttl);
  end if;
  if ask.min_hold < '0' or ask.min_hold > ask.ttl then
    raise exception 'min_hold is %, and must be between 0 and the ttl (%)', ask.min_hold, ask.ttl
      using errcode = 'invalid_parameter_value', hint = 'Raise the ttl or lower min_hold.';
  end if;
  if ask.max_hold < '1 millisecond' or ask.max_hold < ask.min_hold then
    raise exception 'max_hold is %, and must be above 0 and not below min_hold', ask.max_hold
      using errcode = 'invalid_parameter_value', hint = 'Raise max_hold, or leave it out.';
  end if;
  if ask.mode is null or ask.mode not in ('exclusive', 'shared') then
    raise exception 'mode is %, and must be exclusive or shared', coalesce(quote_literal(ask.mode), 'null')
      using errcode = 'invalid_parameter_value', hint = 'Leave mode out for an exclusive lock.';
  end if;
  if ask.permits not between 1 and 10000 then
    raise exception 'permits is %, and must be between 1 and 10000', ask.permits
      using errcode = 'invalid_parameter_value', hint = 'Leave permits out for an exclusive lock, or use mode shared for any number.';
  end if;
end
$$;
