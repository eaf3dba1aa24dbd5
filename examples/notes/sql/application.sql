-- The application before Turno: its notes, with what it knew about their processing, and what it was charged.

create table notes (
  id                  uuid primary key default gen_random_uuid(),
  user_id             uuid not null,
  title               text not null,
  audio               text,
  transcription       text,
  analysis            text,
  processed_at        timestamptz,
  processing_attempts integer default 0,
  error_message       text,
  created_at          timestamptz not null default now()
);

-- Outside the notes, and without a reference to them: money is spent, whatever becomes of a note.
create table charges (
  id      bigint generated always as identity primary key,
  note_id uuid not null,
  step    text not null,
  cents   integer not null,
  who     text not null,
  at      timestamptz not null default clock_timestamp()
);
