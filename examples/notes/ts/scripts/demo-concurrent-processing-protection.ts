// npx tsx scripts/demo-concurrent-processing-protection.ts
//
// Three processes try to process the same notes at once, without locks and with them. It creates its own user and notes in the
// database at DATABASE_URL, and removes them again.

import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

import { close, pool } from '../lib/supabase.ts'

const NOTES = 6
const script = fileURLToPath(new URL('process-notes.ts', import.meta.url))

/** Starts all triggers. The service responds only when each of them has called it or has ended. */
async function race(options: string[]) {
  const userId = randomUUID()
  const { rows } = await pool.query<{ id: string }>(
    `insert into notes (user_id, title, audio)
     select $1, 'Demo ' || n, n || '.ogg' from generate_series(1, $2::integer) n returning id`,
    [userId, NOTES],
  )
  const triggers = [['batch', userId], ['batch', userId], ['manual', userId, rows[0]!.id]]
  const names = triggers.map(([name], place) => `${name} ${place} of ${userId}`)

  const gate = await pool.connect()
  for (const who of names) await gate.query("select pg_advisory_lock(hashtext($1), hashtext('transcription'))", [who])
  const processes = triggers.map((args, place) =>
    spawn(process.execPath, ['--import', 'tsx', script, ...args, '--who', names[place]!, ...options], {
      stdio: ['ignore', 'ignore', 'inherit'],
    }),
  )
  const ends = processes.map((child) => once(child, 'exit'))
  for (const [place, child] of processes.entries()) {
    const hasPaid = async () => (await pool.query('select from charges where who = $1', [names[place]])).rowCount
    while (child.exitCode === null && !(await hasPaid())) await setTimeout(5)
  }
  await gate.query('select pg_advisory_unlock_all()')
  gate.release()
  for (const [code] of await Promise.all(ends)) if (code !== 0) throw new Error(`a process ended with ${code}`)
  return bill(userId)
}

async function bill(userId: string) {
  const { rows } = await pool.query(
    `select
       (select count(*) from notes where user_id = $1 and processed_at is not null) as "notes processed",
       count(*) as "steps paid",
       count(*) - count(distinct (note_id, step)) as "of these, duplicates",
       sum(cents) as cents
     from charges where note_id in (select id from notes where user_id = $1)`,
    [userId],
  )
  await pool.query('delete from charges where note_id in (select id from notes where user_id = $1)', [userId])
  await pool.query('delete from notes where user_id = $1', [userId])
  return rows[0]
}

console.table({ 'without locks': await race(['--without-locks']), 'with locks': await race([]) })
await close()
