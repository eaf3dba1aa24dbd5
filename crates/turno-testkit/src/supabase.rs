//! What a Supabase project has that a PostgreSQL server does not: statements that create it.

/// Creates the roles of a cluster. PostgREST logs in as `authenticator` and switches to one of the others, which inherit nothing.
pub const ROLES: &str = "
    create role anon nologin noinherit;
    create role authenticated nologin noinherit;
    create role service_role nologin noinherit bypassrls;
    create role authenticator login noinherit;
    grant anon, authenticated, service_role to authenticator;
";

/// Creates the objects of a database: every new table and function of schema public is granted to all roles, and row-level
/// security protects them.
pub const SCHEMAS: &str = "
    grant usage on schema public to anon, authenticated, service_role;
    alter default privileges in schema public grant all on tables to anon, authenticated, service_role;
    alter default privileges in schema public grant all on functions to anon, authenticated, service_role;
    alter default privileges in schema public grant all on sequences to anon, authenticated, service_role;
    create schema auth;
    create function auth.uid() returns uuid language sql stable
    as $$ select nullif(current_setting('request.jwt.claims', true)::json ->> 'sub', '')::uuid $$;
    grant usage on schema auth to anon, authenticated, service_role;
";
