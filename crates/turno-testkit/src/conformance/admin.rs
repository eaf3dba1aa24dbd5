//! Rules of the administration: access tokens and actions of operators.

mod access_tokens;
mod operator;
