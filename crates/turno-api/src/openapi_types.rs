//! OpenAPI schemas of names, texts, durations and payloads. The library enforces the rules; these types only describe them.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::check;

/// Pattern: no control characters.
const PRINTABLE: &str = r"^[^\x00-\x1f\x7f-\x9f]+$";

/// Pattern: a name, `@` and a token.
const WITH_TOKEN: &str = r"^[^\x00-\x1f\x7f-\x9f]+@[0-9]{1,18}$";

fn text(longest: usize, pattern: &str, description: &str, example: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::String))
        .min_length(Some(1))
        .max_length(Some(longest))
        .pattern(Some(pattern))
        .description(Some(description))
        .examples([serde_json::json!(example)])
        .into()
}

/// Schema of a duration as text with a unit.
pub(crate) fn duration(description: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::String))
        .min_length(Some(2))
        // Larger units first, each at most once.
        .pattern(Some(
            r"^([0-9]{1,3}d)?([0-9]{1,4}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?([0-9]{1,9}ms)?$",
        ))
        .description(Some(description))
        .examples(["500ms", "30s", "5m", "1h30m", "1d"])
        .into()
}

/// Defines types that only have a schema.
macro_rules! described {
    ($($(#[$doc:meta])* $name:ident = $schema:expr;)+) => {$(
        $(#[$doc])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                $schema
            }
        }

        impl ToSchema for $name {}
    )+};
}

described! {
    /// A name.
    Name = text(
        check::NAME_BYTES,
        PRINTABLE,
        "A name: 1 to 255 bytes of UTF-8 without control characters; path-like, PRESTAMO/123",
        "PRESTAMO/123",
    );
    /// A text.
    Text = text(
        check::TEXT_BYTES,
        PRINTABLE,
        "A text: 1 to 1000 bytes of UTF-8 without control characters",
        "Registro de pago",
    );
    /// The id of a lease.
    LeaseName = text(
        check::NAME_BYTES + 20,
        WITH_TOKEN,
        "A lease, RESOURCE@TOKEN, as acquire answered it",
        "PRESTAMO/123@1794708000000000",
    );
    /// The claim of a once key's run.
    OnceClaimName = text(
        check::NAME_BYTES + 20,
        WITH_TOKEN,
        "A claim, KEY@TOKEN, as begin answered it",
        "pago/77@1794708000000000",
    );
    /// A claim on an item.
    ClaimName = ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::String))
        .pattern(Some(
            r"^\d{1,18}@[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        ))
        .description(Some("A claim, ITEM@TOKEN, as claim answered it"))
        .examples([serde_json::json!("17@0190f1f4-2b3c-7d4e-8f50-112233445566")])
        .into();
    /// How long a lease or a claim is valid.
    LeaseDuration = duration("A length of time, from 1ms to 1d, with its unit: 30s");
    /// How long a call may wait.
    WaitDuration = duration(
        "A length of time, cut to the longest that the server lets one request wait, with its unit: 30s",
    );
    /// Any JSON, kept as it is written: no number is rounded.
    Json = ObjectBuilder::new()
        .schema_type(SchemaType::AnyValue)
        .description(Some("Any JSON; numbers are kept as they are written"))
        .into();
}
