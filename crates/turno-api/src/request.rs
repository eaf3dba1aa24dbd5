//! Bodies of requests.

/// Defines the body of a request: its required fields, then the optional ones. Unknown fields are rejected, and an optional field
/// that is `None` is not sent. `as` names the schema of a field, if it is not that of its type.
macro_rules! request {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $($(#[$required_meta:meta])* $required:ident: $required_type:ty $(as $required_schema:ident)?,)*
        } optional {
            $($(#[$optional_meta:meta])* $optional:ident: $optional_type:ty $(as $optional_schema:ident)?,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[$required_meta])*
                $(#[cfg_attr(feature = "schema", schema(value_type = $required_schema))])?
                pub $required: $required_type,
            )*
            $(
                $(#[$optional_meta])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                $(#[cfg_attr(feature = "schema", schema(value_type = Option<$optional_schema>))])?
                pub $optional: Option<$optional_type>,
            )*
        }
    };
}

pub(crate) use request;
