//! What adopting adds to a table, and that undoing removes exactly that.

use turno::adopt::{Acquire, Release, Shape};
use turno_testkit::conformance::TestStore;

use super::{TIMEOUT, age, ask, columns, take, tell, test_stores, with_notes};

/// Returns the table with its dependent objects, as text that can be compared.
async fn shape_of(test_store: &TestStore) -> String {
    let sql = if test_store.is_sqlite() {
        "select group_concat(sql, ';') from (select sql from sqlite_schema where sql is not null order by name)"
    } else {
        "select concat(
           (select string_agg(concat_ws(' ', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid)), ';' order by c.relname, a.attnum)
            from pg_class c join pg_attribute a on a.attrelid = c.oid left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
            where c.relnamespace = 'public'::regnamespace and a.attnum > 0 and not a.attisdropped),
           (select string_agg(indexdef, ';' order by indexname) from pg_indexes where schemaname = 'public'),
           (select string_agg(pg_get_functiondef(oid), ';' order by oid::regprocedure::text) from pg_proc where pronamespace = 'public'::regnamespace))"
    };
    ask(test_store, sql).await
}

#[tokio::test]
async fn adopting_again_changes_nothing_and_undoing_restores_the_table() {
    for test_store in test_stores() {
        let turno = test_store.turno().await;
        tell(&test_store, "create table notes (id {id}, body text, error_message varchar(20)); create index of_body on notes (body); insert into notes (body, error_message) values ('one', 'mine')").await;
        let before = shape_of(&test_store).await;
        let adopted = turno.adopt("notes").id("id").apply().await.unwrap();
        assert_eq!(adopted.columns.len(), 4, "one was there: {adopted:?}");
        let after = shape_of(&test_store).await;
        assert_ne!(after, before);
        let again = turno.adopt("notes").id("id").apply().await.unwrap();
        assert_eq!(shape_of(&test_store).await, after);
        assert_eq!(again.columns.len(), 4);
        // An existing column is used where possible, and is kept.
        let notes = turno.adopted("notes");
        let token = take(&notes, "1").await;
        let long = "x".repeat(50);
        assert_eq!(
            notes.release_with_error("1", token, &long).await.unwrap(),
            Release::Released
        );
        let gone = turno.unadopt("notes").await.unwrap();
        assert_eq!(gone.columns.len(), 4);
        assert_eq!(shape_of(&test_store).await, before);
        assert!(
            ask(&test_store, "select error_message from notes")
                .await
                .starts_with("xxx")
        );
    }
}

#[tokio::test]
async fn what_is_adopted_anew_after_an_undo_works_with_the_same_handle() {
    for test_store in test_stores() {
        let (turno, notes) = with_notes(&test_store, 1).await;
        let first = take(&notes, "1").await;
        turno.unadopt("notes").await.unwrap();
        assert_eq!(notes.stats(None).await.unwrap_err().field(), Some("table"));
        turno
            .adopt("notes")
            .id("id")
            .suffix("anew")
            .apply()
            .await
            .unwrap();
        // Tokens never decrease, although the column that had the last one was dropped.
        assert!(take(&notes, "1").await > first);
    }
}

/// Another instance has adopted the table with other options, without notifying this one.
#[tokio::test]
async fn a_handle_follows_when_another_instance_changes_the_options() {
    for test_store in test_stores() {
        let (_turno, notes) = with_notes(&test_store, 2).await;
        take(&notes, "1").await;
        let other = test_store.turno().await;
        other
            .adopt("notes")
            .id("id")
            .suffix("other")
            .apply()
            .await
            .unwrap();
        assert_eq!(notes.acquire("1", TIMEOUT).await.unwrap(), Acquire::Busy);
        take(&notes, "2").await;
    }
}

#[tokio::test]
async fn the_shape_can_be_changed_and_everything_undone() {
    for test_store in test_stores() {
        let turno = test_store.turno().await;
        tell(&test_store, "create table notes (id {id}, body text)").await;
        let before = shape_of(&test_store).await;
        turno.adopt("notes").apply().await.unwrap();
        let marked = turno.adopt("notes").shape(Shape::Processed);
        let adopted = marked.apply().await.unwrap();
        assert_eq!((adopted.columns.len(), adopted.indexes.len()), (6, 1));
        turno.unadopt("notes").await.unwrap();
        assert_eq!(shape_of(&test_store).await, before);
    }
}

/// A table that was dropped and created again has its own columns, whatever was recorded for the former one.
#[tokio::test]
async fn columns_of_a_table_that_was_made_anew_stay() {
    for test_store in test_stores() {
        let (turno, _notes) = with_notes(&test_store, 1).await;
        let cascade = if test_store.is_sqlite() {
            ""
        } else {
            "cascade"
        };
        tell(&test_store, &format!("drop table notes {cascade}; create table notes (id {{id}}, processed_at timestamp, processing_token bigint)")).await;
        turno.adopt("notes").id("id").apply().await.unwrap();
        turno.unadopt("notes").await.unwrap();
        assert_eq!(
            columns(&test_store, "notes").await,
            "id,processed_at,processing_token"
        );
    }
}

#[tokio::test]
async fn names_that_need_quotes_are_quoted() {
    // The plain name, and its SQL form.
    let names = [
        ("Odd Name", "\"Odd Name\""),
        ("we\"ird", "\"we\"\"ird\""),
        ("it's {id} $turno$ %I", "\"it's {id} $turno$ %I\""),
        ("order", "\"order\""),
        ("ñandú", "\"ñandú\""),
    ];
    for test_store in test_stores() {
        let turno = test_store.turno().await;
        for (place, (table, quoted)) in names.into_iter().enumerate() {
            // The helper replaces {id}, which is part of a name here.
            let made = quoted.replace("{id}", "{ID}");
            let table = table.replace("{id}", "{ID}");
            tell(&test_store, &format!("create table {made} (\"select\" {{id}}, \"the \"\"user\"\"\" text); insert into {made} values (1, 'ana'), (2, 'eva')")).await;
            turno
                .adopt(&table)
                .id("select")
                .user("the \"user\"")
                .suffix(format!("n{place}"))
                .apply()
                .await
                .unwrap();
            let handle = turno.adopted(&table);
            let rows = handle.next(Some("eva"), 10, TIMEOUT).await.unwrap();
            assert_eq!(rows.len(), 1, "{table}");
            assert_eq!(rows[0].id, "2");
            handle.release("2", rows[0].token).await.unwrap();
            let token = take(&handle, "1").await;
            handle.release_with_error("1", token, "why").await.unwrap();
            take(&handle, "1").await;
            age(&test_store, &made).await;
            assert_eq!(handle.cleanup(TIMEOUT).await.unwrap(), 1);
            assert_eq!(handle.stats(None).await.unwrap().completed, 1);
            turno.unadopt(&table).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_missing_or_unsuitable_column_is_named() {
    for test_store in test_stores() {
        let turno = test_store.turno().await;
        tell(&test_store, "create table notes (id {id}, body text); create table odd (id {id}, processing_token text); create view seen as select * from notes").await;
        let before = shape_of(&test_store).await;
        for (adopt, field) in [
            (turno.adopt("nowhere"), "table"),
            (turno.adopt(""), "table"),
            (turno.adopt("not a name; drop table notes"), "table"),
            (turno.adopt("a.b.c.d.e"), "table"),
            (turno.adopt("seen"), "table"),
            (turno.adopt("odd"), "table"),
            (turno.adopt("notes").id("nothing"), "id"),
            (turno.adopt("notes").id("body"), "id"),
            (turno.adopt("notes").id(""), "id"),
            (turno.adopt("notes").user("missing"), "user"),
            (turno.adopt("notes").max_attempts(0), "max_attempts"),
        ] {
            let asked = format!("{adopt:?}");
            let error = adopt.clone().apply().await.unwrap_err();
            assert_eq!(error.field(), Some(field), "{asked}: {error:?}");
            assert_eq!(adopt.print().await.unwrap_err().field(), Some(field));
        }
        assert_eq!(shape_of(&test_store).await, before);
    }
}

#[tokio::test]
async fn undoing_refuses_while_something_depends_on_it() {
    for test_store in test_stores() {
        let (turno, _notes) = with_notes(&test_store, 1).await;
        let before = shape_of(&test_store).await;
        for (make, name, drop) in [
            (
                "create view pending_notes as select id from notes where processed_at is null",
                "pending_notes",
                "drop view pending_notes",
            ),
            (
                "create index of_errors on notes (error_message)",
                "of_errors",
                "drop index of_errors",
            ),
        ] {
            tell(&test_store, make).await;
            let error = turno.unadopt("notes").await.unwrap_err();
            assert!(
                error.is_refused() && error.to_string().contains(name),
                "{error:?}"
            );
            tell(&test_store, drop).await;
            assert_eq!(shape_of(&test_store).await, before);
        }
        turno.unadopt("notes").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_adopt_at_once_all_succeed() {
    for test_store in test_stores() {
        test_store.turno().await;
        tell(&test_store, "create table notes (id {id})").await;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let turno = test_store.turno().await;
            tasks.spawn(async move { turno.adopt("notes").apply().await });
        }
        for adopted in tasks.join_all().await {
            assert_eq!(adopted.unwrap().columns.len(), 5);
        }
    }
}

/// Adopting rewrites no rows, whatever their number.
#[tokio::test]
async fn postgres_does_not_rewrite_the_table() {
    let test_store = TestStore::postgres();
    let turno = test_store.turno().await;
    tell(&test_store, "create table notes (id {id}, body text); insert into notes (body) select 'x' from generate_series(1, 1000)").await;
    let file = "select pg_relation_filenode('notes')";
    let before = ask(&test_store, file).await;
    turno.adopt("notes").apply().await.unwrap();
    assert_eq!(ask(&test_store, file).await, before);
    let whole =
        "select count(*) from pg_index where indrelid = 'notes'::regclass and indpred is null";
    assert_eq!(
        ask(&test_store, whole).await,
        "1",
        "all but the primary key are partial"
    );
}
