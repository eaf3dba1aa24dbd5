//! A store's URL without its password, for showing.

const HIDDEN: &str = "***";

/// The URL with `***` for a password, wherever a URL can have one.
pub(crate) fn url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (rest, query) = rest
        .split_once('?')
        .map_or((rest, None), |(rest, query)| (rest, Some(query)));
    // The last @: a password that was not encoded may have one too.
    let address = match rest.rsplit_once('@') {
        Some((who, host)) => match who.split_once(':') {
            Some((user, _)) => format!("{user}:{HIDDEN}@{host}"),
            None => rest.to_owned(),
        },
        None => rest.to_owned(),
    };
    let query = query.map_or(String::new(), |query| {
        let parts: Vec<String> = query.split('&').map(parameter).collect();
        format!("?{}", parts.join("&"))
    });
    format!("{scheme}://{address}{query}")
}

fn parameter(part: &str) -> String {
    match part.split_once('=') {
        Some((name, _)) if name.contains("password") => format!("{name}={HIDDEN}"),
        _ => part.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        for (given, shown) in [
            ("sqlite:turno.db", "sqlite:turno.db"),
            ("postgres://ana@db/app", "postgres://ana@db/app"),
            (
                "postgres://ana:s3cret@db:5432/app?sslmode=disable",
                "postgres://ana:***@db:5432/app?sslmode=disable",
            ),
            (
                "postgres://ana:s3@cret/x@db/app",
                "postgres://ana:***@db/app",
            ),
            (
                "postgres://db/app?user=ana&password=s3cret",
                "postgres://db/app?user=ana&password=***",
            ),
        ] {
            assert_eq!(url(given), shown);
        }
    }
}
