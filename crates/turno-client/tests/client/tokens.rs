//! Who may do what, as a client hears of it.

use turno::access::{AccessNew, Role};
use turno_client::Page;
use turno_client::api::lock::{Acquire, LockOutcome};

use crate::common::{Running, library};

fn ask(resource: &str) -> Acquire {
    Acquire {
        resource: resource.into(),
        ..Acquire::default()
    }
}

#[tokio::test]
async fn a_token_opens_as_much_as_it_may() {
    let server = Running::start().await;
    let create = async |role: Role, prefix: &str| {
        let new = AccessNew {
            name: "test".into(),
            role,
            prefix: prefix.into(),
            expires_in: None,
        };
        server.turno.access_create(new).await.unwrap().1
    };
    let operator = create(Role::Operate, "pay/").await;
    let reader = create(Role::Read, "").await;

    let anonymous = server.client().acquire(&ask("pay/1")).await.unwrap_err();
    assert!(anonymous.is_unauthorized(), "{anonymous:?}");
    let stranger = server.client().token("turno_none_none").unwrap();
    assert!(
        stranger
            .acquire(&ask("pay/1"))
            .await
            .unwrap_err()
            .is_unauthorized()
    );

    let operator = server.client().token(operator.as_str()).unwrap();
    let mine = operator.acquire(&ask("pay/1")).await.unwrap();
    assert!(matches!(mine, LockOutcome::Acquired(_)));
    let beyond = operator.acquire(&ask("hr/1")).await.unwrap_err();
    assert!(
        beyond.is_forbidden() && beyond.code() == Some("out_of_scope"),
        "{beyond:?}"
    );
    let kept = format!("{operator:?} {beyond:?}");
    assert!(!kept.contains("turno_"), "{kept}");

    let reader = server.client().token(reader.as_str()).unwrap();
    assert_eq!(
        reader
            .locks("", &Page::default())
            .await
            .unwrap()
            .locks
            .len(),
        1
    );
    let refused = library(reader).lock("pay/2").acquire().await.unwrap_err();
    assert!(refused.is_refused(), "{refused:?}");
}
