// npx tsx scripts/apply-processing-lock-migration.ts
//
// Applies the migration to the database at DATABASE_URL, and verifies that its functions exist.

import { readFile } from 'node:fs/promises'

import { close, pool, supabase } from '../lib/supabase.ts'

const migration = new URL('../supabase/migrations/20240120_add_processing_lock.sql', import.meta.url)
await pool.query(await readFile(migration, 'utf8'))
const { data, error } = await supabase.rpc<number>('cleanup_abandoned_processing_locks')
if (error) throw error
console.log(`migration applied, ${data} abandoned locks cleaned up`)
await close()
