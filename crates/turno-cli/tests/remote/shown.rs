//! Output without the parts that differ in each run: ids, tokens, times, durations and processes.

/// Replaces names and numbers that differ in each run by words.
pub fn normal(text: &str, store: &str) -> String {
    let text = text.replace(store, "STORE");
    let mut out = String::new();
    for line in text.lines() {
        out.push_str(&numbers(&times(&uuids(line))));
        out.push('\n');
    }
    out
}

fn uuids(text: &str) -> String {
    const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
    let length = |rest: &str| {
        let mut end = 0;
        for (fixture, group) in GROUPS.into_iter().enumerate() {
            if fixture > 0 {
                rest[end..].starts_with('-').then_some(())?;
                end += 1;
            }
            let hex = rest.get(end..end + group)?;
            hex.bytes()
                .all(|byte| byte.is_ascii_hexdigit())
                .then_some(())?;
            end += group;
        }
        Some(end)
    };
    replaced(text, "UUID", length)
}

/// `2026-11-15T21:00:00.123456Z` and `2026-11-15 21:00:00Z`.
fn times(text: &str) -> String {
    let length = |rest: &str| {
        let shape = rest.get(..19)?;
        let is_time =
            shape
                .bytes()
                .zip("dddd-dd-ddTdd:dd:dd".bytes())
                .all(|(byte, like)| match like {
                    b'd' => byte.is_ascii_digit(),
                    b'T' => matches!(byte, b'T' | b' '),
                    _ => byte == like,
                });
        is_time.then_some(())?;
        rest.find('Z').map(|end| end + 1)
    };
    replaced(text, "TIME", length)
}

/// Tokens, which grow with the clock; remaining milliseconds and seconds; processes.
fn numbers(text: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let worker = format!("{}/", host.trim());
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest[start..].bytes().take_while(u8::is_ascii_digit).count();
        let (before, after) = (&rest[..start], &rest[start + digits..]);
        let varies = digits >= 15
            || before.ends_with("_ms\":")
            || before.ends_with(&worker)
            || before.ends_with("\"pid\":")
            || before.trim_end().ends_with("pid")
            || after.starts_with(" s")
            || after.starts_with(" more");
        out.push_str(before);
        out.push_str(if varies {
            "N"
        } else {
            &rest[start..start + digits]
        });
        rest = after;
    }
    out + rest
}

/// Replaces each match of `length`, which returns the length of a match at the beginning of its argument.
fn replaced(text: &str, word: &str, length: impl Fn(&str) -> Option<usize>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match length(rest) {
            Some(end) => {
                out.push_str(word);
                rest = &rest[end..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

#[test]
fn what_differs_is_taken_out_and_nothing_else() {
    let text = "it@1794708000000000 0190f1f4-2b3c-7d4e-8f50-112233445566 in 285 s (2026-11-15 21:00:00Z) é 17\n\
                {\"remaining_ms\":29999,\"holds\":2,\"at\":\"2026-11-15T21:00:00.123456Z\"} of sqlite:x";
    assert_eq!(
        normal(text, "sqlite:x"),
        "it@N UUID in N s (TIME) é 17\n{\"remaining_ms\":N,\"holds\":2,\"at\":\"TIME\"} of STORE\n"
    );
}
