//! The attribute that registers a conformance rule.

use proc_macro::{TokenStream, TokenTree};

/// Registers `async fn rule(store: &TestStore)` as a conformance rule: every store runs it.
///
/// `#[rule(postgres)]` is a rule about what only PostgreSQL has. On other stores it is reported as ignored.
#[proc_macro_attribute]
pub fn rule(stores: TokenStream, function: TokenStream) -> TokenStream {
    let only_postgres = match stores.to_string().as_str() {
        "" => false,
        "postgres" => true,
        _ => return error("the attribute is `rule` or `rule(postgres)`"),
    };
    let Some(name) = name_of(&function) else {
        return error("a rule is an `async fn` with one parameter, the test store");
    };
    let registration = format!(
        "::inventory::submit! {{
            crate::conformance::Rule {{
                path: concat!(module_path!(), \"::\", stringify!({name})),
                only_postgres: {only_postgres},
                run: |store| ::std::boxed::Box::pin({name}(store)),
            }}
        }}"
    );
    let Ok(registration) = registration.parse::<TokenStream>() else {
        return error("the name of the rule is no identifier");
    };
    [function, registration].into_iter().collect()
}

/// Returns the identifier after `fn`.
fn name_of(function: &TokenStream) -> Option<String> {
    let mut tokens = function.clone().into_iter();
    tokens.find(|token| matches!(token, TokenTree::Ident(word) if word.to_string() == "fn"))?;
    Some(tokens.next()?.to_string())
}

fn error(message: &str) -> TokenStream {
    format!("compile_error! {{ {message:?} }}")
        .parse()
        .unwrap_or_default()
}
