-- Twelve notes of two users: the first is processed, the second has failed once, the others wait.

insert into notes (id, user_id, title, audio)
select
  format('00000000-0000-4000-8000-%s', lpad(n::text, 12, '0'))::uuid,
  case n % 2 when 1 then 'a0000000-0000-4000-8000-000000000000' else 'e0000000-0000-4000-8000-000000000000' end::uuid,
  'Note ' || n,
  n || '.ogg'
from generate_series(1, 12) n;

update notes
set transcription       = 'words of 1.ogg',
    analysis            = 'gist of words of 1.ogg',
    processed_at        = now() - interval '1 day',
    processing_attempts = 1
where title = 'Note 1';

update notes
set processing_attempts = 1,
    error_message       = 'the service was down'
where title = 'Note 2';
