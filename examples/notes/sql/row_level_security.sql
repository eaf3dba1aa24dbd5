-- What a Supabase project adds to the application's tables: a user sees and changes own notes only, and charges are not for users.

alter table notes enable row level security;

create policy own_notes on notes
for all to authenticated
using (user_id = auth.uid())
with check (user_id = auth.uid());

alter table charges enable row level security;
