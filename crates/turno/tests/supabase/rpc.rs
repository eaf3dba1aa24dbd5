//! Calls as PostgREST makes them. PostgREST itself is not installed by the tests (neither Debian, npm nor PyPI has it), so
//! the statements that it sends are sent here: role and claims are set for the transaction, the arguments are
//! one JSON document, and their types come from the catalog.

use serde_json::{Value, json};
use tokio_postgres::{Client, Row};
use turno_testkit::Sql as _;

use crate::database::Database;

/// A Supabase user, in `sub` of the claims.
pub const ANA: &str = "00000000-0000-0000-0000-00000000000a";

/// Calls functions as one role.
pub struct Caller {
    catalogue: Client,
    connection: Client,
    role: &'static str,
}

impl Caller {
    pub async fn new(database: &Database, role: &'static str) -> Self {
        Caller {
            catalogue: database.manager().await,
            connection: database.client("authenticator").await,
            role,
        }
    }

    /// Returns the result of a call as JSON, or its SQLSTATE.
    pub async fn call(&self, function: &str, arguments: Value) -> Result<Value, String> {
        let found = self.function(function, &arguments).await;
        let (schema, name) = function.split_once('.').unwrap();
        let settings = "select set_config('search_path', $1, true), set_config('role', $2, true), set_config('request.jwt.claims', $3, true), set_config('request.method', 'POST', true)";
        let claims = json!({"sub": ANA, "role": self.role}).to_string();
        let path = format!("\"{schema}\", \"public\"");
        self.connection.run("begin").await;
        self.connection
            .query(settings, &[&path, &self.role, &claims])
            .await
            .unwrap();
        let answer = self
            .connection
            .query_one(&statement(schema, name, &found), &[&arguments])
            .await;
        let end = if answer.is_ok() { "commit" } else { "rollback" };
        self.connection.run(end).await;
        match answer {
            Ok(row) => Ok(row.get("body")),
            Err(error) => match error.code() {
                Some(code) => Err(code.code().to_owned()),
                None => panic!("{function}: {error:?}"),
            },
        }
    }

    pub async fn ok(&self, function: &str, arguments: Value) -> Value {
        let answer = self.call(function, arguments).await;
        answer.unwrap_or_else(|code| panic!("{function} as {}: SQLSTATE {code}", self.role))
    }

    /// Finds a function as PostgREST does, among those of its name by the names of the given arguments.
    async fn function(&self, function: &str, arguments: &Value) -> Row {
        let given: Vec<&String> = arguments.as_object().unwrap().keys().collect();
        let sql = "
            select
              coalesce((
                select array_agg(format('%I', a.name) order by a.place) from unnest(p.proargnames) with ordinality a (name, place)
                where a.name = any ($2)), '{}') as names,
              coalesce((
                select array_agg(format('%I %s', a.name, format_type(p.proargtypes[a.place - 1], null)) order by a.place)
                from unnest(p.proargnames) with ordinality a (name, place)
                where a.name = any ($2)), '{}') as columns,
              p.proretset,
              y.typtype = 'c' or p.prorettype = 'record'::regtype as is_composite
            from pg_proc p
            join pg_type y on y.oid = p.prorettype
            where format('%s.%s', p.pronamespace::regnamespace, p.proname) = $1
              and $2 <@ coalesce(p.proargnames[1:p.pronargs], '{}')
              and coalesce(p.proargnames[1:p.pronargs - p.pronargdefaults], '{}') <@ $2";
        let rows = self
            .catalogue
            .query(sql, &[&function, &given])
            .await
            .unwrap();
        assert_eq!(
            rows.len(),
            1,
            "{function} with {given:?} is not one function"
        );
        rows.into_iter().next().unwrap()
    }
}

fn statement(schema: &str, name: &str, found: &Row) -> String {
    let names: Vec<String> = found.get("names");
    let columns: Vec<String> = found.get("columns");
    let given: Vec<String> = names
        .iter()
        .map(|name| format!("{name} := pgrst_body.{name}"))
        .collect();
    let body = if names.is_empty() {
        String::new()
    } else {
        format!(
            "lateral (select {} from json_to_record(pgrst_payload.json_data) as _({}) limit 1) pgrst_body, ",
            names.join(", "),
            columns.join(", ")
        )
    };
    let (selected, row) = if found.get("is_composite") {
        ("pgrst_call.*", "_postgrest_t")
    } else {
        ("pgrst_call as pgrst_scalar", "_postgrest_t.pgrst_scalar")
    };
    let all = if found.get("proretset") {
        format!("coalesce(json_agg({row}), '[]')")
    } else {
        format!("coalesce(json_agg({row}) -> 0, 'null')")
    };
    format!(
        "with pgrst_source as (select {selected} from (select $1::json as json_data) pgrst_payload, {body}lateral \"{schema}\".\"{name}\"({}) pgrst_call) \
         select {all} as body from (select * from pgrst_source) _postgrest_t",
        given.join(", ")
    )
}

/// Calls each function that an application uses once, in an order in which all of them succeed.
async fn all_calls(caller: &Caller) {
    let lock = caller
        .ok(
            "turno.lock_acquire",
            json!({"resource": "note/1", "ttl": "30 seconds", "user": "ana"}),
        )
        .await;
    assert_eq!(lock["outcome"], "acquired");
    let busy = caller
        .ok("turno.lock_acquire", json!({"resource": "note/1"}))
        .await;
    assert_eq!(
        (&busy["outcome"], &busy["user"]),
        (&json!("busy"), &json!("ana"))
    );
    let token = &lock["token"];
    let renewed = caller
        .ok(
            "turno.lock_renew",
            json!({"resource": "note/1", "token": token}),
        )
        .await;
    assert_eq!(renewed["outcome"], "renewed");
    let released = caller
        .ok(
            "turno.lock_release",
            json!({"resource": "note/1", "token": token}),
        )
        .await;
    assert_eq!(released["outcome"], "released");

    caller
        .ok(
            "turno.inbox_push",
            json!({"queue": "mail", "payload": {"to": "ana"}}),
        )
        .await;
    let claimed = caller
        .ok("turno.inbox_claim", json!({"queue": "mail", "worker": "w"}))
        .await;
    let item = &claimed[0];
    assert_eq!(item["payload"], json!({"to": "ana"}));
    caller
        .ok("turno.inbox_complete", json!({"claim": item["claim"]}))
        .await;

    let event = caller
        .ok(
            "turno.outbox_emit",
            json!({"type": "NoteProcessed", "payload": {"note": 1}, "key": "note/1"}),
        )
        .await;
    for first in [true, false] {
        let seen = caller
            .ok(
                "turno.seen",
                json!({"consumer": "billing", "event_id": event}),
            )
            .await;
        assert_eq!(seen, json!(first));
    }

    let begun = caller
        .ok(
            "turno.once_begin",
            json!({"key": "charge/1", "fingerprint": "f"}),
        )
        .await;
    assert_eq!(begun["outcome"], "fresh");
    caller
        .ok(
            "turno.once_complete",
            json!({"claim": begun["claim"], "answer": {"paid": true}}),
        )
        .await;
    let again = caller
        .ok("turno.once_begin", json!({"key": "charge/1"}))
        .await;
    assert_eq!(again["outcome"], "replay");
}

#[tokio::test]
async fn service_role_calls_what_an_application_needs() {
    let database = Database::with_turno().await;
    all_calls(&Caller::new(&database, "service_role").await).await;
}

#[tokio::test]
async fn anon_and_authenticated_call_nothing() {
    let database = Database::with_turno().await;
    for role in ["anon", "authenticated"] {
        let caller = Caller::new(&database, role).await;
        for (function, arguments) in [
            ("turno.lock_acquire", json!({"resource": "r"})),
            ("turno.lock_release", json!({"resource": "r", "token": 1})),
            ("turno.inbox_push", json!({"queue": "q", "payload": 1})),
            ("turno.inbox_claim", json!({"queue": "q", "worker": "w"})),
            ("turno.outbox_emit", json!({"type": "T", "payload": 1})),
            ("turno.once_begin", json!({"key": "k"})),
            ("turno.schema_version", json!({})),
        ] {
            let answer = caller.call(function, arguments).await;
            assert_eq!(answer, Err("42501".to_owned()), "{function} as {role}");
        }
    }
}

/// How docs/supabase.md grants one function, and how a wrapper function limits the names that users may pass.
#[tokio::test]
async fn one_function_is_granted_to_authenticated() {
    let database = Database::with_turno().await;
    database
        .manager()
        .await
        .run(
            "grant usage on schema turno to authenticated;
             grant execute on function turno.lock_status(text) to authenticated;
             create function public.lock_my_draft() returns turno.lock_outcome
             language sql security definer set search_path = ''
             as $$ select turno.lock_acquire('draft/' || auth.uid(), owner => auth.uid()::text) $$;
             revoke execute on function public.lock_my_draft() from public, anon",
        )
        .await;
    let user = Caller::new(&database, "authenticated").await;
    let lock = user.ok("public.lock_my_draft", json!({})).await;
    assert_eq!(
        (&lock["outcome"], &lock["owner"]),
        (&json!("acquired"), &json!(ANA))
    );
    let resource = format!("draft/{ANA}");
    user.ok("turno.lock_status", json!({"resource": resource}))
        .await;
    let release = json!({"resource": resource, "token": lock["token"]});
    let refused = user.call("turno.lock_release", release).await;
    assert_eq!(refused, Err("42501".to_owned()));
    let visitor = Caller::new(&database, "anon").await;
    let refused = visitor.call("public.lock_my_draft", json!({})).await;
    assert_eq!(refused, Err("42501".to_owned()));
}
