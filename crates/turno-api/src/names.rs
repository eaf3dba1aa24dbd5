//! Names of enums without fields, as stores and interfaces use them.

use crate::error::Error;

/// Defines an enum with the names of its values: `ALL`, `as_str`, `Display` and `FromStr`.
///
/// The word after `as` is the field of the error for an unknown name.
macro_rules! named {
    (
        $(#[$attribute:meta])*
        pub enum $type:ident as $field:literal {
            $($(#[$of_variant:meta])* $variant:ident = $name:literal),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        pub enum $type {
            $($(#[$of_variant])* $variant,)+
        }

        impl $type {
            /// All values.
            pub const ALL: [$type; [$($name),+].len()] = [$($type::$variant),+];

            /// The name in stores and interfaces.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)+
                }
            }

            /// Parses a name from the store.
            #[doc(hidden)]
            pub fn parse(name: &str) -> $crate::Result<Self> {
                name.parse().map_err(|_| $crate::Error::unexpected(stringify!($type), name))
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::Error;

            fn from_str(name: &str) -> $crate::Result<Self> {
                Self::ALL
                    .into_iter()
                    .find(|value| value.as_str() == name)
                    .ok_or_else(|| $crate::names::unknown($field, &[$($name),+]))
            }
        }
    };
}

pub(crate) use named;

/// The error for a name that is none of these.
pub(crate) fn unknown(field: &'static str, names: &[&str]) -> Error {
    let names = match names {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        names => names.concat(),
    };
    Error::invalid(field, format!("{field} must be {names}"))
}

#[cfg(test)]
mod tests {
    use crate::outbox::OnDead;

    #[test]
    fn names_are_parsed_and_printed() {
        for choice in OnDead::ALL {
            assert_eq!(choice.to_string().parse::<OnDead>().unwrap(), choice);
        }
        let error = "stop".parse::<OnDead>().unwrap_err();
        assert_eq!(error.field(), Some("on_dead"));
        assert_eq!(error.to_string(), "on_dead must be skip, block or park");
        assert!(OnDead::parse("stop").unwrap_err().is_schema());
    }
}
