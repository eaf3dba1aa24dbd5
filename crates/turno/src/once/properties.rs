//! Properties that hold for all JSON and all bytes: generated trees in many spellings, and texts that are almost JSON.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

use super::reference::check;
use super::{Identities, Identity, Request, canonical_json};

const LITERALS: [&str; 3] = ["null", "true", "false"];

/// JSON whose numbers are text, as in a request.
#[derive(Debug, Clone)]
enum Json {
    Literal(usize),
    Number(String),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    fn any() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            (0..LITERALS.len()).prop_map(Json::Literal),
            r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?".prop_map(Json::Number),
            text().prop_map(Json::Text),
        ];
        leaf.prop_recursive(5, 48, 6, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..6).prop_map(Json::Array),
                btree_map(text(), inner, 0..6)
                    .prop_map(|members| Json::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Writes one of its many spellings: members in any order, white space, escapes.
    fn write(&self, random: &mut fastrand::Rng, out: &mut String) {
        space(random, out);
        match self {
            Json::Literal(index) => out.push_str(LITERALS[*index]),
            Json::Number(number) => out.push_str(number),
            Json::Text(text) => write_text(text, random, out),
            Json::Array(values) => {
                out.push('[');
                for (index, value) in values.iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    value.write(random, out);
                }
                space(random, out);
                out.push(']');
            }
            Json::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                random.shuffle(&mut members);
                out.push('{');
                for (index, (key, value)) in members.into_iter().enumerate() {
                    out.push_str(if index > 0 { "," } else { "" });
                    space(random, out);
                    write_text(key, random, out);
                    space(random, out);
                    out.push(':');
                    value.write(random, out);
                }
                space(random, out);
                out.push('}');
            }
        }
        space(random, out);
    }

    fn written(&self, seed: u64) -> Vec<u8> {
        let mut out = String::new();
        self.write(&mut fastrand::Rng::with_seed(seed), &mut out);
        out.into_bytes()
    }

    /// Returns the number of values and keys that can be changed.
    fn places(&self) -> usize {
        match self {
            Json::Array(values) => 1 + values.iter().map(Json::places).sum::<usize>(),
            Json::Object(members) => {
                let places = members.iter().map(|(_, value)| 1 + value.places());
                1 + places.sum::<usize>()
            }
            _ => 1,
        }
    }

    /// Changes one value or key, and nothing else. Returns false if `place` is after this value.
    fn change(&mut self, place: &mut usize) -> bool {
        if step(place) {
            match self {
                Json::Literal(index) => *index = (*index + 1) % LITERALS.len(),
                Json::Number(number) if matches!(number.as_str(), "0" | "-0") => {
                    number.push_str(".0")
                }
                Json::Number(number) => number.push('0'),
                Json::Text(text) => text.push('x'),
                Json::Array(values) => values.push(Json::Literal(0)),
                Json::Object(members) => members.push((unused(members, ""), Json::Literal(0))),
            }
            return true;
        }
        match self {
            Json::Array(values) => values.iter_mut().any(|value| value.change(place)),
            Json::Object(members) => {
                for index in 0..members.len() {
                    if step(place) {
                        members[index].0 = unused(members, &members[index].0);
                        return true;
                    }
                    if members[index].1.change(place) {
                        return true;
                    }
                }
                false
            }
            _ => false,
        }
    }
}

fn step(place: &mut usize) -> bool {
    let here = *place == 0;
    *place = place.wrapping_sub(1);
    here
}

fn unused(members: &[(String, Json)], like: &str) -> String {
    let mut key = format!("{like}x");
    while members.iter().any(|(other, _)| *other == key) {
        key.push('x');
    }
    key
}

fn text() -> impl Strategy<Value = String> {
    let letter = prop_oneof![(0..0x80_u8).prop_map(char::from), any::<char>()];
    vec(letter, 0..20).prop_map(String::from_iter)
}

fn space(random: &mut fastrand::Rng, out: &mut String) {
    for _ in 0..random.usize(0..3) {
        out.push(*random.choice([' ', '\t', '\n', '\r'].iter()).unwrap());
    }
}

fn write_text(text: &str, random: &mut fastrand::Rng, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        let short = match letter {
            '"' | '\\' | '/' => Some(letter),
            '\u{8}' => Some('b'),
            '\u{c}' => Some('f'),
            '\n' => Some('n'),
            '\r' => Some('r'),
            '\t' => Some('t'),
            _ => None,
        };
        let must = letter < ' ' || matches!(letter, '"' | '\\');
        match (random.u8(0..4), short) {
            (0, Some(short)) => out.extend(['\\', short]),
            (0, None) | (1, _) => escape(letter, random, out),
            (_, Some(short)) if must => out.extend(['\\', short]),
            _ if must => escape(letter, random, out),
            _ => out.push(letter),
        }
    }
    out.push('"');
}

fn escape(letter: char, random: &mut fastrand::Rng, out: &mut String) {
    for unit in letter.encode_utf16(&mut [0; 2]) {
        out.push_str(&match random.bool() {
            true => format!("\\u{unit:04x}"),
            false => format!("\\u{unit:04X}"),
        });
    }
}

/// Fragments of JSON, and some that are invalid.
fn almost_json() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: [&[u8]; 40] = [
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\"",
        b"\"",
        b"\"a\"",
        b"\"b\":",
        b"\\",
        b"\\u",
        b"\\ud83d",
        b"\\ude00",
        b"\\n",
        b"\\\"",
        b"\\/",
        b"00",
        b"0",
        b"1",
        b"-",
        b"+",
        b".",
        b"e",
        b"E",
        b"null",
        b"true",
        b"false",
        b"NaN",
        b"Infinity",
        b" ",
        b"\n",
        b"\t",
        b"\x0b",
        b"\x00",
        b"a",
        "ñ".as_bytes(),
        "\u{feff}".as_bytes(),
        b"\xff",
        b"\xed\xa0\x80",
    ];
    vec(select(&PIECES[..]), 0..24).prop_map(|pieces| pieces.concat())
}

fn identity(body: &[u8]) -> Identity {
    let request = Request::new("POST", "/").content_type("application/json");
    Identities::new().content(&request.body(body)).unwrap()
}

proptest! {
    #[test]
    fn all_ways_to_write_it_are_one(json in Json::any(), one: u64, other: u64) {
        let (one, other) = (json.written(one), json.written(other));
        prop_assert_eq!(canonical_json(&one).unwrap(), canonical_json(&other).unwrap());
        prop_assert_eq!(identity(&one), identity(&other));
        check(&one);
    }

    #[test]
    fn one_change_makes_another(json in Json::any(), place: prop::sample::Index, one: u64, other: u64) {
        let mut changed = json.clone();
        prop_assert!(changed.change(&mut place.index(json.places())));
        let (one, other) = (json.written(one), changed.written(other));
        prop_assert_ne!(canonical_json(&one).unwrap(), canonical_json(&other).unwrap());
        prop_assert_ne!(identity(&one), identity(&other));
    }

    #[test]
    fn any_bytes_are_read_as_serde_json_reads_them(bytes: Vec<u8>) {
        check(&bytes);
    }

    #[test]
    fn json_with_a_byte_changed_is_read_as_serde_json_reads_it(
        json in Json::any(), seed: u64, place: prop::sample::Index, byte: u8, how in 0..3,
    ) {
        let mut text = json.written(seed);
        let place = place.index(text.len());
        match how {
            0 => text[place] = byte,
            1 => text.insert(place, byte),
            _ => drop(text.remove(place)),
        }
        check(&text);
    }

    /// The parts include the bytes that separate parts: with those, one part could be mistaken for two.
    #[test]
    fn a_byte_that_moves_into_the_next_part_is_seen(
        parts in vec("[\\x00\\x01a]{1,4}", 4), moved in 0..3_usize,
    ) {
        let identity = |parts: &[String]| {
            let [tenant, principal, method, path] = parts else {
                unreachable!("four parts")
            };
            let request = Request::new(method, path).tenant(&**tenant).principal(&**principal);
            Identities::new().keyed(&request, "key").unwrap()
        };
        let mut shifted = parts.clone();
        let letter = shifted[moved].pop().unwrap();
        shifted[moved + 1].insert(0, letter);
        prop_assert_eq!(parts.concat(), shifted.concat());
        prop_assert_ne!(identity(&parts).key, identity(&shifted).key);
        prop_assert_ne!(identity(&parts).fingerprint, identity(&shifted).fingerprint);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn almost_json_is_read_as_serde_json_reads_it(text in almost_json()) {
        check(&text);
    }
}
