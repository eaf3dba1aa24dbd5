-- Adds the processing lock to the table notes: two columns, two small indexes, and the functions. Doing so again changes
-- nothing. Needs the schema turno (`turno migrate`, or the file of `turno migrate --print --for supabase`), and its owner. Where
-- functions of these names exist already, add `replace => true`.

select turno.adopt('notes', 'id', "user" => 'user_id');

-- So that PostgREST, and with it supabase.rpc, knows them at once.
notify pgrst, 'reload schema';
