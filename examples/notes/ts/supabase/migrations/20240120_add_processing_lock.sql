-- Adds the processing lock to the table notes: two columns, two small indexes, and the functions. Doing so again changes
-- nothing. Needs the schema turno (`turno migrate`), and its owner.

select turno.adopt('notes', 'id', "user" => 'user_id');

-- So that PostgREST, and with it supabase.rpc, knows them at once.
notify pgrst, 'reload schema';
