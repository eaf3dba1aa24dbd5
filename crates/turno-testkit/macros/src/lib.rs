//! The attribute that registers a conformance rule.

use proc_macro::{TokenStream, TokenTree};

/// Registers `async fn rule(store: &TestStore)` as a conformance rule: every store runs it.
#[proc_macro_attribute]
pub fn rule(_: TokenStream, function: TokenStream) -> TokenStream {
    let Some(name) = name_of(&function) else {
        return error("a rule is an `async fn` with one parameter, the test store");
    };
    let registration = format!(
        "::inventory::submit! {{
            crate::conformance::Rule {{
                path: concat!(module_path!(), \"::\", stringify!({name})),
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
