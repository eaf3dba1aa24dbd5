//! Adopting a table, and letting it go: which statements, in which order.

use rusqlite::{Connection, ErrorCode};

use super::super::classify;
use super::super::rows::exec;
use super::names::{Adopted, Table, literal, quote};
use crate::error::{Error, Kind, Result};
use crate::store::*;

/// A column. SQLite keeps its definition as it was written, and so shows who added it: the constraint's name does
/// nothing else.
struct Column {
    name: &'static str,
    definition: &'static str,
    /// Part of the type that one that is there already must have.
    needs: &'static str,
}

const PROCESSING: [Column; 5] = [
    Column {
        name: "processing_started_at",
        definition: "integer constraint turno_adopt default null",
        needs: "INT",
    },
    PROCESSED_AT,
    Column {
        name: "processing_attempts",
        definition: "integer constraint turno_adopt not null default 0",
        needs: "INT",
    },
    Column {
        name: "error_message",
        definition: "text constraint turno_adopt default null",
        needs: "",
    },
    Column {
        name: "processing_token",
        definition: "integer constraint turno_adopt default null",
        needs: "INT",
    },
];

const PROCESSED: [Column; 2] = [
    Column {
        name: "processed",
        definition: "integer constraint turno_adopt not null default 0",
        needs: "",
    },
    PROCESSED_AT,
];

const PROCESSED_AT: Column = Column {
    name: "processed_at",
    definition: "integer constraint turno_adopt default null",
    needs: "",
};

impl Column {
    fn of(shape: Shape) -> &'static [Column] {
        match shape {
            Shape::Processing => &PROCESSING,
            Shape::Processed => &PROCESSED,
        }
    }

    /// As it is written into the statement that adds it, and found again in the table's.
    fn text(&self) -> String {
        format!("{} {}", quote(self.name), self.definition)
    }
}

pub(super) fn adopt(db: &Connection, ask: &AdoptTable) -> Result<Adoption> {
    let (adopted, steps) = plan(db, ask)?;
    for step in steps {
        db.execute_batch(&step).map_err(classify)?;
    }
    Ok(adopted.into_adoption())
}

pub(super) fn print(db: &Connection, ask: &AdoptTable) -> Result<String> {
    let (_, steps) = plan(db, ask)?;
    Ok(format!(
        "begin immediate;\n\n{};\n\ncommit;\n",
        steps.join(";\n\n")
    ))
}

/// What has to be done: it is written, or shown.
fn plan(db: &Connection, ask: &AdoptTable) -> Result<(Adopted, Vec<String>)> {
    let table = find(db, &ask.table)?;
    let mut adopted = wanted(db, &table, ask)?;
    let old = Adopted::find(db, &table.name)?;
    let mut steps = Vec::new();
    for column in missing(&table, ask.shape)? {
        steps.push(format!(
            "alter table {} add column {}",
            quote(&table.name),
            column.text()
        ));
        adopted.columns.push(column.name.to_owned());
    }
    let before = old.as_ref().map_or(&[][..], |old| &old.columns);
    adopted.columns.extend(ours(&table, before));
    let old_indexes = old.map_or(Vec::new(), |old| old.indexes);
    for (name, sql) in indexes(&adopted) {
        steps.push(sql);
        adopted.indexes.push(name);
    }
    for index in old_indexes {
        if !adopted.indexes.contains(&index) {
            steps.push(format!("drop index if exists {}", quote(&index)));
        }
    }
    steps.push(record(&adopted)?);
    Ok((adopted, steps))
}

/// The columns that are missing. One that is there is used as it is, if its type will do.
fn missing(table: &Table, shape: Shape) -> Result<Vec<&'static Column>> {
    let mut missing = Vec::new();
    for column in Column::of(shape) {
        match table.column(column.name) {
            None => missing.push(column),
            Some((name, kind)) if !kind.contains(column.needs) => {
                return Err(Error::invalid(
                    "table",
                    format!(
                        "table {} has a column {name} of type {kind}, and it must be an integer: rename it, and adopt adds its own",
                        table.name
                    ),
                ));
            }
            Some(_) => {}
        }
    }
    Ok(missing)
}

fn find(db: &Connection, name: &str) -> Result<Table> {
    Table::find(db, name)?.ok_or_else(|| {
        Error::invalid(
            "table",
            format!("table {name} does not exist: check the name, and that it is an ordinary table of your own"),
        )
    })
}

fn wanted(db: &Connection, table: &Table, ask: &AdoptTable) -> Result<Adopted> {
    let id = table.named("id", &ask.id)?;
    let unique: Option<bool> = db
        .query_row(query!(adopt_unique), (&table.name, &id), |row| row.get(0))
        .map_err(classify)?;
    if unique != Some(true) {
        return Err(Error::invalid(
            "id",
            format!(
                "id is {id}, which may occur twice in table {}: name the primary key, or a column with a unique index of its own",
                table.name
            ),
        ));
    }
    let user = match &ask.user {
        Some(user) => Some(table.named("user", user)?),
        None => table.column("user_id").map(|(name, _)| name.clone()),
    };
    Ok(Adopted {
        table: table.name.clone(),
        id,
        user,
        shape: ask.shape,
        max_attempts: ask.max_attempts,
        text_times: table
            .column("processed_at")
            .is_some_and(|(_, kind)| !kind.contains("INT")),
        columns: Vec::new(),
        indexes: Vec::new(),
    })
}

/// Those of the columns that were really added by us: the table may have been made anew since.
fn ours(table: &Table, columns: &[String]) -> Vec<String> {
    let added = |name: &&String| {
        PROCESSING
            .iter()
            .chain(&PROCESSED)
            .any(|column| column.name == **name && table.sql.contains(&column.text()))
    };
    columns.iter().filter(added).cloned().collect()
}

/// Names and statements.
fn indexes(adopted: &Adopted) -> Vec<(String, String)> {
    let id = quote(&adopted.id);
    let wanted = match adopted.shape {
        Shape::Processing => vec![
            (
                "waiting",
                format!("(processing_attempts, {id}) where processed_at is null"),
            ),
            (
                "processing",
                "(processing_started_at) where processing_started_at is not null".to_owned(),
            ),
        ],
        Shape::Processed => vec![("unmarked", format!("({id}) where processed = 0"))],
    };
    wanted
        .into_iter()
        .map(|(what, definition)| {
            let name = format!("{}_turno_{what}", adopted.table);
            let sql = format!(
                "create index if not exists {} on {} {definition}",
                quote(&name),
                quote(&adopted.table)
            );
            (name, sql)
        })
        .collect()
}

fn record(adopted: &Adopted) -> Result<String> {
    let json = |names: &[String]| {
        serde_json::to_string(names)
            .map(|json| literal(&json))
            .map_err(|error| Error::caused(Kind::Broken, "names cannot be written", error))
    };
    Ok(format!(
        "insert or replace into turno_adopted (table_name, id_column, user_column, shape, max_attempts, text_times, columns, indexes, adopted_at)\n\
         values ({}, {}, {}, {}, {}, {}, {}, {}, unixepoch() * 1000000)",
        literal(&adopted.table),
        literal(&adopted.id),
        adopted.user.as_deref().map_or("null".to_owned(), literal),
        literal(adopted.shape.as_str()),
        adopted.max_attempts,
        u8::from(adopted.text_times),
        json(&adopted.columns)?,
        json(&adopted.indexes)?,
    ))
}

pub(super) fn undo(db: &Connection, table: &str) -> Result<Adoption> {
    let Some(mut adopted) = Adopted::find(db, table)? else {
        return Err(Error::invalid(
            "table",
            format!("table {table} is not adopted: there is nothing to undo"),
        ));
    };
    adopted.columns = match Table::find(db, &adopted.table)? {
        Some(found) => ours(&found, &adopted.columns),
        None => Vec::new(),
    };
    for index in &adopted.indexes {
        let sql = format!("drop index if exists {}", quote(index));
        db.execute_batch(&sql).map_err(classify)?;
    }
    for column in &adopted.columns {
        let (table, column) = (quote(&adopted.table), quote(column));
        db.execute_batch(&format!("alter table {table} drop column {column}"))
            .map_err(|error| in_use(&adopted.table, error))?;
    }
    exec(db, query!(adopted_delete), [&adopted.table])?;
    Ok(adopted.into_adoption())
}

/// SQLite refuses to drop a column that a view, a trigger or another index names, and says which.
fn in_use(table: &str, error: rusqlite::Error) -> Error {
    if error.sqlite_error_code() != Some(ErrorCode::Unknown) {
        return classify(error);
    }
    Error::caused(
        Kind::Refused,
        format!(
            "table {table} cannot be let go, because of what depends on it: {error}: drop that first, and then undo again"
        ),
        error,
    )
}
