//! The migration file for Supabase, whose command line applies it.
//!
//! That program splits a file into statements, sends them as one batch, and records the file in a table of its own. Therefore
//! the file has no `begin` and no `commit`, and can be applied to any earlier version and again to its own: a step that the
//! database has already is skipped.

use super::migrate::{ADVISORY_LOCK, BEGIN, MIGRATIONS, latest, rights};
use crate::store::{Roles, SCHEMA_VERSION};

const HEADER: &str = "\
-- Turno's schema, for Supabase: written by `turno migrate --print --for supabase`, not by hand.
-- Keep it as supabase/migrations/<time>_turno.sql, and apply it with `supabase db push` as role postgres. It updates any
-- earlier version; applied again, it changes nothing. docs/supabase.md says which role may call what.

";

/// The whole schema as one migration file for Supabase's command line.
///
/// It is also right where another tool applies SQL files statement by statement. Role `service_role` may call what the role of
/// applications may (`turno_app`, unless setting `app_role` names another), role `anon` nothing.
#[must_use]
pub fn script_for_supabase() -> String {
    let mut sql = format!(
        "{HEADER}set search_path = pg_catalog, pg_temp;\n\nselect pg_catalog.pg_advisory_xact_lock({ADVISORY_LOCK});\n\n{BEGIN}\n{}",
        refuse_newer()
    );
    for (version, (name, text)) in (1u32..).zip(MIGRATIONS) {
        sql.push_str(&unless_applied(version, name, text));
    }
    sql.push_str(&latest());
    sql.push_str(&rights(Roles::Grant));
    // Once more after the schema was granted.
    for text in [query!(supabase_rights), query!(grant_service_role)] {
        sql.push_str(text);
        sql.push('\n');
    }
    sql.push_str("reset search_path;\n\nnotify pgrst, 'reload schema';\n");
    sql
}

/// A file that is older than the database would replace functions with older ones.
fn refuse_newer() -> String {
    format!(
        "do $turno$\nbegin\n  \
         if exists (select from turno.migration where version > {SCHEMA_VERSION}) then\n    \
         raise exception 'the database has a newer schema of Turno than {SCHEMA_VERSION}, which this file creates'\n      \
         using hint = 'Print the file with a newer turno.';\n  \
         end if;\nend\n$turno$;\n\n"
    )
}

/// A table cannot be created twice, so each step looks first. A step is one statement, and so it is applied whole or not at all.
fn unless_applied(version: u32, name: &str, text: &str) -> String {
    format!(
        "-- Migration {name}\n\n\
         do $turno_migration$\nbegin\n  \
         if exists (select from turno.migration where version = {version}) then\n    return;\n  end if;\n  \
         execute $turno_step$\n{text}\n$turno_step$;\n  \
         insert into turno.migration (version, name) values ({version}, '{name}');\nend\n$turno_migration$;\n\n"
    )
}
