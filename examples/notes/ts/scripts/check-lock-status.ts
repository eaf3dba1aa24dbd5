// npx tsx scripts/check-lock-status.ts NOTE
//
// The document's "Check Lock Status".

import { close, supabase } from '../lib/supabase.ts'

const noteId = process.argv[2]
const { data: note, error } = await supabase
  .from('notes')
  .select('processing_started_at, processed_at')
  .eq('id', noteId)
  .single()
if (error) throw error

console.log('Lock active:', !!note.processing_started_at)
console.log('Processed:', !!note.processed_at)
await close()
