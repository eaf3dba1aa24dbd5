-- Adds the processing lock to the table notes: two columns, two small indexes, and the functions. A second run changes
-- nothing. It needs the schema turno (`turno migrate`, or the file of `turno migrate --print --for supabase`), and must be run
-- by its owner. If functions of these names exist already, add `replace => true`.

select turno.adopt('notes', 'id', "user" => 'user_id');

-- So that PostgREST, and with it supabase.rpc, finds the functions at once.
notify pgrst, 'reload schema';
