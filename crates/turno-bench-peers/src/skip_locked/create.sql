-- Table of a hand-written queue.
-- Parameters: none.
-- Index: item_visible is the order of claiming.
create table item (
    id bigint generated always as identity primary key,
    visible_at timestamptz not null default clock_timestamp(),
    attempt integer not null default 0,
    payload jsonb not null
);

create index item_visible on item (visible_at, id);
