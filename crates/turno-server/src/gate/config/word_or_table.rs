//! A setting that is either a word or a table. With an untagged enum, serde would not say what is expected.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{self, Deserializer, MapAccess, Visitor};

/// A word or a table.
#[derive(Debug, Clone)]
pub(super) enum WordOrTable<W, T> {
    Word(W),
    Table(T),
}

impl<'de, W: Deserialize<'de>, T: Deserialize<'de>> Deserialize<'de> for WordOrTable<W, T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ValueVisitor<W, T>(PhantomData<(W, T)>);
        impl<'de, W: Deserialize<'de>, T: Deserialize<'de>> Visitor<'de> for ValueVisitor<W, T> {
            type Value = WordOrTable<W, T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word or a table")
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<Self::Value, E> {
                W::deserialize(StrDeserializer::new(word)).map(WordOrTable::Word)
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(table)).map(WordOrTable::Table)
            }
        }
        from.deserialize_any(ValueVisitor(PhantomData))
    }
}
