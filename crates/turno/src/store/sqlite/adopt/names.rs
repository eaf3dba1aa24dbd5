//! The names of users' own tables and columns: looked up, and put into quotes. Nothing else here does either.

use rusqlite::{Connection, OptionalExtension};

use super::super::classify;
use super::super::rows::many;
use crate::error::{Error, Kind, Result};
pub(super) use crate::store::sql_text::{literal, quote};
use crate::store::{sql_text, *};

/// An adopted table.
#[derive(Debug, Clone)]
pub(super) struct Adopted {
    pub table: String,
    pub id: String,
    pub user: Option<String>,
    pub shape: Shape,
    pub max_attempts: u32,
    pub text_times: bool,
    pub columns: Vec<String>,
    pub indexes: Vec<String>,
}

impl Adopted {
    pub(super) fn find(db: &Connection, table: &str) -> Result<Option<Self>> {
        let found = db
            .prepare_cached(query!(adopted_find))
            .and_then(|mut find| {
                find.query_row([table], |row| {
                    let adopted = Adopted {
                        table: row.get(0)?,
                        id: row.get(1)?,
                        user: row.get(2)?,
                        shape: Shape::default(),
                        max_attempts: row.get(4)?,
                        text_times: row.get(5)?,
                        columns: Vec::new(),
                        indexes: Vec::new(),
                    };
                    let texts: [String; 3] = [row.get(3)?, row.get(6)?, row.get(7)?];
                    Ok((adopted, texts))
                })
                .optional()
            })
            .map_err(classify)?;
        let Some((adopted, [shape, columns, indexes])) = found else {
            return Ok(None);
        };
        Ok(Some(Adopted {
            shape: shape.parse()?,
            columns: list(&columns)?,
            indexes: list(&indexes)?,
            ..adopted
        }))
    }

    /// The table, if it has the shape that a verb needs.
    pub(super) fn of_shape(db: &Connection, table: &str, shape: Shape) -> Result<Self> {
        let adopted = Adopted::find(db, table)?.ok_or_else(|| not_adopted(table))?;
        if adopted.shape == shape {
            Ok(adopted)
        } else {
            Err(wrong_shape(table, shape))
        }
    }

    /// A statement with `{table}`, `{id}` and `{user}` filled in, in one pass: a name may look like a blank itself.
    /// Where there is no user column, a user is compared with itself.
    pub(super) fn fill(&self, template: &str) -> String {
        sql_text::fill(template, &|name, _| match (name, &self.user) {
            ("table", _) => quote(&self.table),
            ("id", _) => quote(&self.id),
            ("user", Some(user)) => quote(user),
            (other, _) => format!(":{other}"),
        })
    }

    pub(super) fn into_adoption(self) -> Adoption {
        Adoption {
            table: self.table,
            id: self.id,
            user: self.user,
            shape: self.shape,
            columns: self.columns,
            indexes: self.indexes,
            functions: Vec::new(),
            replaced: Vec::new(),
        }
    }
}

fn list(json: &str) -> Result<Vec<String>> {
    serde_json::from_str(json).map_err(|error| {
        Error::caused(
            Kind::Broken,
            "the record of an adopted table is not as it was written",
            error,
        )
    })
}

/// A table as the database has it.
#[derive(Debug)]
pub(super) struct Table {
    pub name: String,
    /// The statement that would make it, alterations included.
    pub sql: String,
    /// Names and types.
    pub columns: Vec<(String, String)>,
}

impl Table {
    pub(super) fn find(db: &Connection, name: &str) -> Result<Option<Self>> {
        let found: Option<(String, String)> = db
            .query_row(query!(adopt_table), [name], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()
            .map_err(classify)?;
        let Some((name, sql)) = found else {
            return Ok(None);
        };
        let columns = many(db, query!(adopt_columns), [&name], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        Ok(Some(Table { name, sql, columns }))
    }

    /// A column's name and type as the database has them; SQLite does not tell cases apart.
    pub(super) fn column(&self, name: &str) -> Option<&(String, String)> {
        self.columns
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// A column that was named in `field`.
    pub(super) fn named(&self, field: &'static str, name: &str) -> Result<String> {
        match self.column(name) {
            Some((name, _)) => Ok(name.clone()),
            None => {
                let known: Vec<&str> = self.columns.iter().map(|(name, _)| &**name).collect();
                Err(Error::invalid(
                    field,
                    format!(
                        "{field} is {name}, and table {} has no such column: it has {}",
                        self.name,
                        known.join(", ")
                    ),
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_quotes_and_is_no_blank() {
        let adopted = Adopted {
            table: "a{id}\"b".into(),
            id: "select".into(),
            user: None,
            shape: Shape::Processing,
            max_attempts: 5,
            text_times: false,
            columns: Vec::new(),
            indexes: Vec::new(),
        };
        assert_eq!(
            adopted.fill("from {table} where {id} = :id and {user} = :user"),
            "from \"a{id}\"\"b\" where \"select\" = :id and :user = :user"
        );
        assert_eq!(literal("it's"), "'it''s'");
    }
}
