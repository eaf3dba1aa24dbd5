//! A setting that is either a word or a table.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, Deserializer, MapAccess, Visitor};

/// The value as it is written.
#[derive(Debug, Clone)]
pub(super) enum WordOr<W, T> {
    Word(W),
    Table(T),
}

impl<'de, W: Deserialize<'de>, T: Deserialize<'de>> Deserialize<'de> for WordOr<W, T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Written<W, T>(PhantomData<(W, T)>);
        impl<'de, W: Deserialize<'de>, T: Deserialize<'de>> Visitor<'de> for Written<W, T> {
            type Value = WordOr<W, T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word or a table")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Self::Value, E> {
                W::deserialize(StrDeserializer::new(word)).map(WordOr::Word)
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(table)).map(WordOr::Table)
            }
        }
        from.deserialize_any(Written(PhantomData))
    }
}
