//! Functions read the clock, and not the time at which the caller's transaction began: it may have begun before the lease that they
//! judge, and a lease that they grant would be shorter than the caller asked for.

use tokio_postgres::Client;
use turno_testkit::Sql as _;

use super::{change, test_store};

/// Functions that contain the time of the transaction or of the statement, separated by commas.
async fn functions_with_transaction_time(client: &Client) -> String {
    let names = r"select coalesce(string_agg(p.proname, ', ' order by p.proname), '')
        from pg_proc p
        where p.pronamespace = 'turno'::regnamespace
          and p.prosrc ~* '\m(now|transaction_timestamp|statement_timestamp)\(\)|\m(current|local)_?time(stamp)?\M'";
    client.text(names).await
}

#[tokio::test]
async fn no_function_reads_the_time_of_the_transaction() {
    let (_test_store, client) = test_store().await;
    assert_eq!(functions_with_transaction_time(&client).await, "");
    // The control.
    change(&client, "lock_guard", "clock_timestamp()", "now()").await;
    assert_eq!(functions_with_transaction_time(&client).await, "lock_guard");
}
