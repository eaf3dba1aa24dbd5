//! The routes of `turno gate`: which requests are processed once, and how.

mod explain;
mod file;
mod route;
mod value;
mod word;

pub(crate) use self::explain::explain;
pub(crate) use self::file::{Found, RoutesFile, read};
