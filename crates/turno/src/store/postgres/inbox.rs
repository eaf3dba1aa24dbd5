//! The inbox: each verb is one call of a function.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::batching::{Reply, is_small_claim, push};
use super::interval::{Interval, interval_text};
use super::json::Json;
use super::rows::{big_count, count, count_in, get, place};
use super::{Argument, PostgresStore};
use crate::error::Result;
use crate::store::*;

pub(crate) const INBOX_PUSH_IN: &str = query!(inbox_push_in);
pub(crate) const INBOX_COMPLETE_IN: &str = query!(inbox_complete_in);

#[async_trait]
impl InboxStore for PostgresStore {
    async fn inbox_push(&self, ask: &InboxPush) -> Result<Vec<PushedItem>> {
        let batcher = match push::has_keys(ask) {
            true => &self.keyed_pushes,
            false => &self.pushes,
        };
        batcher.call(&self.calls, ask).await
    }

    async fn inbox_claim(&self, ask: &InboxClaim) -> Result<Vec<ClaimedItem>> {
        if is_small_claim(ask)
            && let Reply::Done(claimed) = self.claims.ask(ask.clone()).await
        {
            return claimed;
        }
        self.claims.kind().one(ask).await
    }

    async fn inbox_complete(&self, ask: &InboxComplete) -> Result<Settled> {
        self.completions.call(&self.calls, ask).await
    }

    async fn inbox_turn(&self, ask: &InboxTurn) -> Result<(Settled, Vec<ClaimedItem>)> {
        match self.turns.ask(ask.clone()).await {
            Reply::Done(turned) => turned,
            Reply::CallAlone | Reply::Locked => self.turns.kind().one(ask).await,
        }
    }

    async fn inbox_fail(&self, ask: &InboxFail) -> Result<Settled> {
        let claims: Vec<ClaimId> = ask.failures.iter().map(|failure| failure.claim).collect();
        let (items, tokens) = parts(&claims);
        // PostgreSQL's text cannot contain a zero.
        let errors: Vec<String> = ask
            .failures
            .iter()
            .map(|failure| failure.error.replace('\0', "\u{fffd}"))
            .collect();
        let retry_ins: Vec<Option<Interval>> = ask
            .failures
            .iter()
            .map(|failure| failure.retry_in.map(Interval))
            .collect();
        let finals: Vec<bool> = ask
            .failures
            .iter()
            .map(|failure| failure.again == Again::Never)
            .collect();
        self.settled(
            query!(inbox_fail),
            &[
                (&items, Type::INT8_ARRAY),
                (&tokens, Type::UUID_ARRAY),
                (&errors, Type::TEXT_ARRAY),
                (&retry_ins, Type::INTERVAL_ARRAY),
                (&finals, Type::BOOL_ARRAY),
                (&ask.request, Type::UUID),
            ],
        )
        .await
    }

    async fn inbox_give_back(&self, ask: &InboxGiveBack) -> Result<Settled> {
        let (items, tokens) = parts(&ask.claims);
        self.settled(
            query!(inbox_give_back),
            &[
                (&items, Type::INT8_ARRAY),
                (&tokens, Type::UUID_ARRAY),
                (&ask.request, Type::UUID),
            ],
        )
        .await
    }

    async fn inbox_extend(&self, ask: &InboxExtend) -> Result<Settled> {
        let (items, tokens) = parts(&ask.claims);
        self.settled(
            query!(inbox_extend),
            &[
                (&items, Type::INT8_ARRAY),
                (&tokens, Type::UUID_ARRAY),
                (&Interval(ask.lease), Type::INTERVAL),
            ],
        )
        .await
    }

    async fn inbox_requeue(&self, ask: &InboxFailedItems) -> Result<u64> {
        self.failed_items(query!(inbox_requeue), ask).await
    }

    async fn inbox_discard(&self, ask: &InboxFailedItems) -> Result<u64> {
        self.failed_items(query!(inbox_discard), ask).await
    }

    async fn inbox_reset(&self, ask: &InboxReset) -> Result<u64> {
        let limit = count_in(ask.limit);
        let row = self
            .calls
            .row(
                query!(inbox_reset),
                &[
                    (&ask.queue, Type::TEXT),
                    (&Interval(ask.older_than), Type::INTERVAL),
                    (&limit, Type::INT4),
                    (&ask.user, Type::TEXT),
                    (&ask.reason, Type::TEXT),
                ],
            )
            .await?;
        big_count(&row, "many")
    }

    async fn inbox_settings(&self, queue: &str) -> Result<QueueSettings> {
        let row = self
            .calls
            .row(query!(inbox_settings), &[(&queue, Type::TEXT)])
            .await?;
        queue_settings(get(&row, "settings")?)
    }

    async fn inbox_configure(&self, ask: &InboxConfigure) -> Result<QueueSettings> {
        let change = settings_text(&ask.change)?;
        let row = self
            .calls
            .row(
                query!(inbox_configure),
                &[
                    (&ask.queue, Type::TEXT),
                    (&change, Type::TEXT),
                    (&ask.user, Type::TEXT),
                    (&ask.reason, Type::TEXT),
                ],
            )
            .await?;
        queue_settings(get(&row, "settings")?)
    }

    async fn inbox_stats(&self, ask: &InboxStats) -> Result<Vec<QueueStats>> {
        let rows = self
            .calls
            .rows(
                query!(inbox_stats),
                &[(&ask.queue, Type::TEXT), (&ask.prefix, Type::TEXT)],
            )
            .await?;
        rows.iter().map(stats).collect()
    }

    async fn inbox_list(&self, ask: &InboxList) -> Result<Vec<ItemView>> {
        let limit = count_in(ask.limit);
        let after = ask.after.map(|id| id.0);
        let rows = self
            .calls
            .rows(
                query!(inbox_list),
                &[
                    (&ask.queue, Type::TEXT),
                    (&ask.state.as_str(), Type::TEXT),
                    (&after, Type::INT8),
                    (&limit, Type::INT4),
                ],
            )
            .await?;
        rows.iter().map(|row| view(row, ask.state)).collect()
    }

    async fn inbox_queues(&self, claims: &[ClaimId]) -> Result<Vec<Option<String>>> {
        let (items, tokens) = parts(claims);
        let rows = self
            .calls
            .rows(
                query!(inbox_queues),
                &[(&items, Type::INT8_ARRAY), (&tokens, Type::UUID_ARRAY)],
            )
            .await?;
        let mut queues = vec![None; claims.len()];
        for row in &rows {
            if let Some(queue) = place(row).and_then(|place| queues.get_mut(place)) {
                *queue = get(row, "queue")?;
            }
        }
        Ok(queues)
    }

    async fn inbox_wait(&self, queue: &str) -> Result<Option<Duration>> {
        let row = self
            .calls
            .row(query!(inbox_wait), &[(&queue, Type::TEXT)])
            .await?;
        Ok(get::<Option<Interval>>(&row, "next_due")?.map(|due| due.0))
    }

    async fn inbox_idle(&self, ask: &InboxIdle) -> Result<InboxIdleness> {
        let row = self
            .calls
            .row(
                query!(inbox_idle),
                &[
                    (&ask.queue, Type::TEXT),
                    (&Interval(ask.listens), Type::INTERVAL),
                    (&Interval(ask.looked), Type::INTERVAL),
                ],
            )
            .await?;
        Ok(InboxIdleness {
            due: get::<Option<Interval>>(&row, "due")?.map(|due| due.0),
            sure: get(&row, "sure")?,
        })
    }

    async fn inbox_poll(&self, queue: &str, lasts: Duration) -> Result<bool> {
        self.calls
            .row(
                query!(inbox_poll),
                &[(&queue, Type::TEXT), (&Interval(lasts), Type::INTERVAL)],
            )
            .await
            .map(|_| true)
    }

    async fn inbox_rouse(&self, queue: &str) -> Result<()> {
        self.calls
            .row(query!(inbox_rouse), &[(&queue, Type::TEXT)])
            .await
            .map(drop)
    }
}

impl PostgresStore {
    async fn settled(&self, sql: &'static str, arguments: &[Argument<'_>]) -> Result<Settled> {
        settled(&self.calls.row(sql, arguments).await?)
    }

    /// Calls a function for failed items. Returns how many it changed.
    async fn failed_items(&self, sql: &'static str, ask: &InboxFailedItems) -> Result<u64> {
        let limit = count_in(ask.limit);
        let ids: Option<Vec<i64>> = ask
            .ids
            .as_ref()
            .map(|ids| ids.iter().map(|id| id.0).collect());
        let row = self
            .calls
            .row(
                sql,
                &[
                    (&ask.queue, Type::TEXT),
                    (&ids, Type::INT8_ARRAY),
                    (&limit, Type::INT4),
                    (&ask.user, Type::TEXT),
                    (&ask.reason, Type::TEXT),
                ],
            )
            .await?;
        big_count(&row, "many")
    }
}

/// A column of texts that only some items have.
type Texts = Option<Vec<Option<String>>>;

/// The items of a push, column by column. A column in which all have the default is not sent.
pub(crate) struct PushColumns<'a> {
    pub(crate) payloads: Vec<&'a str>,
    pub(crate) keys: Option<Vec<Option<&'a str>>>,
    pub(crate) priorities: Option<Vec<i32>>,
    pub(crate) delays: Option<Vec<Option<Duration>>>,
    pub(crate) run_ats: Option<Vec<Option<Timestamp>>>,
    pub(crate) groups: Option<Vec<Option<&'a str>>>,
    pub(crate) max_attempts: Option<Vec<i32>>,
}

impl<'a> PushColumns<'a> {
    pub(crate) fn of(items: impl IntoIterator<Item = &'a NewItem>) -> Self {
        let items: Vec<&'a NewItem> = items.into_iter().collect();
        let items = items.as_slice();
        PushColumns {
            payloads: items.iter().map(|item| item.payload.as_str()).collect(),
            keys: some(items, |item| item.key.as_deref()),
            priorities: other(items, i32::from(DEFAULT_PRIORITY), |item| {
                item.priority.into()
            }),
            delays: some(items, |item| match item.due {
                Some(Due::After(delay)) => Some(delay),
                _ => None,
            }),
            run_ats: some(items, |item| match item.due {
                Some(Due::At(time)) => Some(time),
                _ => None,
            }),
            groups: some(items, |item| item.group.as_deref()),
            max_attempts: other(items, i32::from(DEFAULT_ATTEMPTS), |item| {
                item.max_attempts.into()
            }),
        }
    }

    pub(super) fn intervals(&self) -> Option<Vec<Option<Interval>>> {
        let delays = self.delays.as_ref()?;
        Some(delays.iter().map(|delay| delay.map(Interval)).collect())
    }

    /// Delays and times as text, for drivers that know no intervals.
    pub(crate) fn texts(&self) -> (Texts, Texts) {
        let delays = self.delays.as_ref().map(|delays| {
            delays
                .iter()
                .map(|delay| delay.map(interval_text))
                .collect()
        });
        let times = self.run_ats.as_ref().map(|times| {
            let text = |time: &Timestamp| time.to_string();
            times.iter().map(|time| time.as_ref().map(text)).collect()
        });
        (delays, times)
    }
}

/// A column that only some items have.
fn some<'a, T>(
    items: &[&'a NewItem],
    value: impl Fn(&'a NewItem) -> Option<T>,
) -> Option<Vec<Option<T>>> {
    let column: Vec<Option<T>> = items.iter().copied().map(value).collect();
    column.iter().any(Option::is_some).then_some(column)
}

/// A column in which most items have the default.
fn other<T: PartialEq>(
    items: &[&NewItem],
    default: T,
    value: impl Fn(&NewItem) -> T,
) -> Option<Vec<T>> {
    let column: Vec<T> = items.iter().copied().map(value).collect();
    column
        .iter()
        .any(|value| *value != default)
        .then_some(column)
}

pub(crate) fn pushed(row: &Row) -> Result<Vec<PushedItem>> {
    let duplicates: Option<Vec<i32>> = get(row, "duplicates")?;
    Ok(in_order(get(row, "ids")?, &duplicates.unwrap_or_default()))
}

/// One answer for each item, in their order: from their ids, and the places, counted from one, of the duplicates.
pub(crate) fn in_order(ids: Vec<i64>, duplicates: &[i32]) -> Vec<PushedItem> {
    let mut items: Vec<PushedItem> = ids
        .into_iter()
        .map(|id| PushedItem {
            id: ItemId(id),
            duplicate: false,
        })
        .collect();
    for place in duplicates {
        let place = usize::try_from(place - 1).ok();
        if let Some(item) = place.and_then(|place| items.get_mut(place)) {
            item.duplicate = true;
        }
    }
    items
}

pub(super) fn parts(claims: &[ClaimId]) -> (Vec<i64>, Vec<Uuid>) {
    claims
        .iter()
        .map(|claim| (claim.item.0, claim.token))
        .unzip()
}

pub(crate) fn settled(row: &Row) -> Result<Settled> {
    Ok(Settled {
        done: big_count(row, "done")?,
        stale: get::<Vec<&str>>(row, "stale")?
            .into_iter()
            .map(str::parse)
            .collect::<Result<_>>()?,
    })
}

/// Columns by position: a claim has many rows, and a name costs a search each.
pub(super) fn claimed(row: &Row, token: Uuid) -> Result<ClaimedItem> {
    let read = || -> Result<ClaimedItem, tokio_postgres::Error> {
        let number = |column| -> Result<u32, tokio_postgres::Error> {
            Ok(u32::try_from(row.try_get::<_, i32>(column)?).unwrap_or(0))
        };
        let id = ItemId(row.try_get(0)?);
        Ok(ClaimedItem {
            id,
            claim: ClaimId { item: id, token },
            attempt: number(1)?,
            max_attempts: number(2)?,
            payload: row.try_get::<_, Json>(3)?.0.into(),
            key: row.try_get(4)?,
            group: row.try_get(5)?,
            priority: u8::try_from(row.try_get::<_, i32>(6)?).unwrap_or(u8::MAX),
            pushed_at: row.try_get(7)?,
            expires_at: row.try_get(8)?,
            abandoned: number(9)?,
        })
    };
    read().map_err(super::rows::not_as_expected)
}

fn stats(row: &Row) -> Result<QueueStats> {
    Ok(QueueStats {
        queue: get(row, "queue")?,
        total: big_count(row, "total")?,
        pending: big_count(row, "pending")?,
        scheduled: big_count(row, "scheduled")?,
        processing: big_count(row, "processing")?,
        completed: big_count(row, "completed")?,
        failed: big_count(row, "failed")?,
        oldest_pending: get::<Option<Interval>>(row, "oldest_pending")?.map(|age| age.0),
    })
}

fn view(row: &Row, state: ItemState) -> Result<ItemView> {
    let errors: Option<&str> = get(row, "errors")?;
    Ok(ItemView {
        id: ItemId(get(row, "id")?),
        state,
        payload: get::<Option<String>>(row, "payload")?.map(Into::into),
        key: get(row, "key")?,
        group: get(row, "group")?,
        priority: get::<Option<i32>>(row, "priority")?.and_then(|p| u8::try_from(p).ok()),
        attempts: count(row, "attempts")?,
        abandoned: count(row, "abandoned")?,
        worker: get(row, "worker")?,
        pushed_at: get(row, "pushed_at")?,
        at: get(row, "at")?,
        errors: errors.map_or(Ok(Vec::new()), attempt_errors)?,
    })
}
