//! Removes the password from a store's URL, for messages.

const HIDDEN: &str = "***";

/// Replaces the password with `***`, in every place where a URL can have one.
pub(crate) fn url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return pairs(url);
    };
    let (rest, query) = rest
        .split_once('?')
        .map_or((rest, None), |(rest, query)| (rest, Some(query)));
    // The last @: an unencoded password may contain one too.
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

/// Whether a store's URL or connection string has a password in it.
pub(crate) fn has_password(store: &str) -> bool {
    url(store) != store
}

fn parameter(part: &str) -> String {
    match part.split_once('=') {
        Some((name, _)) if name.contains("password") => format!("{name}={HIDDEN}"),
        _ => part.to_owned(),
    }
}

/// Cuts a connection string at its password: a quoted password may contain spaces and equals signs.
fn pairs(text: &str) -> String {
    match text.find("password") {
        Some(start) if text[start..].contains('=') => {
            format!("{}password={HIDDEN}", &text[..start])
        }
        _ => text.to_owned(),
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
            ("host=db user=ana", "host=db user=ana"),
            (
                "host=db password='s3 cret' user=ana",
                "host=db password=***",
            ),
        ] {
            assert_eq!(url(given), shown);
            assert_eq!(has_password(given), given.contains("s3"));
        }
    }
}
