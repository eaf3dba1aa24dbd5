// npx tsx scripts/test-processing-lock.ts
//
// Tests each function as the document describes it, with its own users and notes in the database at DATABASE_URL.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'

import { ProcessingService } from '../lib/processing-service.ts'
import type { Note } from '../lib/services.ts'
import { call, close, pool, supabase } from '../lib/supabase.ts'

const processingService = new ProcessingService(`test ${randomUUID()}`)
const users: string[] = []

/** Creates a user with this many notes. */
async function notes(count: number): Promise<[userId: string, ...noteIds: string[]]> {
  const userId = randomUUID()
  users.push(userId)
  const { rows } = await pool.query<{ id: string }>(
    `insert into notes (user_id, title, audio)
     select $1, 'Test ' || n, n || '.ogg' from generate_series(1, $2::integer) n returning id`,
    [userId, count],
  )
  return [userId, ...rows.map((row) => row.id)]
}

/** Makes locks older, instead of waiting. */
async function minutesPass(minutes: number, ...noteIds: string[]) {
  await pool.query(
    `update notes set processing_started_at = processing_started_at - make_interval(mins => $2)
     where id = any ($1)`,
    [noteIds, minutes],
  )
}

/** The document's "Check Lock Status", with other columns of the note. */
async function status(noteId: string | undefined) {
  const { rows } = await pool.query(
    `select processing_started_at is not null as locked, processed_at is not null as processed,
       processing_attempts as attempts, error_message as error
     from notes where id = $1`,
    [noteId],
  )
  return rows[0]
}

const acquire = (noteId: string | undefined, minutes = 15) =>
  call<boolean>('acquire_processing_lock', { p_note_id: noteId, p_lock_timeout_minutes: minutes })
const release = (noteId: string | undefined) => call<boolean>('release_processing_lock', { p_note_id: noteId })
const next = (userId: string, limit: number) =>
  call<Note[]>('get_next_notes_for_processing', { p_user_id: userId, p_limit: limit, p_lock_timeout_minutes: 15 })

after(async () => {
  await pool.query('delete from charges where note_id in (select id from notes where user_id = any ($1))', [users])
  await pool.query('delete from notes where user_id = any ($1)', [users])
  await close()
})

test('acquire_processing_lock: true, false if already locked, and an attempt is counted', async () => {
  const [, note] = await notes(1)
  assert.equal(await acquire(note), true)
  assert.equal(await acquire(note), false)
  assert.deepEqual(await status(note), { locked: true, processed: false, attempts: 1, error: null })
})

test('acquire_processing_lock: ten connections at once, and one gets it', async () => {
  const [, note] = await notes(1)
  const answers = await Promise.all(Array.from({ length: 10 }, () => acquire(note)))
  assert.equal(answers.filter(Boolean).length, 1)
})

test('release_processing_lock: processed, unlocked, never handed out again', async () => {
  const [userId, note] = await notes(1)
  await acquire(note)
  assert.equal(await release(note), true)
  assert.deepEqual(await status(note), { locked: false, processed: true, attempts: 1, error: null })
  assert.equal(await acquire(note), false)
  assert.deepEqual(await next(userId, 10), [])
})

test('release_processing_lock_with_error: the error is kept, and the next attempt counted', async () => {
  const [, note] = await notes(1)
  await acquire(note)
  await call('release_processing_lock_with_error', { p_note_id: note, p_error_message: 'no words' })
  assert.deepEqual(await status(note), { locked: false, processed: false, attempts: 1, error: 'no words' })
  assert.equal(await acquire(note), true)
  assert.equal((await status(note)).attempts, 2)
})

test('timeout: a lock that is too old is taken over; how old is said per operation', async () => {
  const [, note] = await notes(1)
  await acquire(note)
  await minutesPass(20, note!)
  assert.equal(await acquire(note, 30), false)
  assert.equal(await acquire(note, 15), true)
})

test('cleanup_abandoned_processing_locks: marks as failed, and counts', async () => {
  const [userId, old, recent] = await notes(2)
  await acquire(old)
  await acquire(recent)
  await minutesPass(6, old!)
  assert.ok((await call<number>('cleanup_abandoned_processing_locks', { p_timeout_minutes: 5 })) >= 1)
  const { locked, error } = await status(old)
  assert.equal(locked, false)
  assert.match(error, /^abandoned/)
  assert.equal((await status(recent)).locked, true)
  const stats = await processingService.getProcessingStats(userId)
  assert.deepEqual(stats, { total: 2, pending: 0, processing: 1, completed: 0, failed: 1 })
})

test('get_next_notes_for_processing: respects locks, user and limit, and locks what it answers', async () => {
  const [userId, first] = await notes(5)
  await acquire(first)
  const [one, other] = await Promise.all([next(userId, 2), next(userId, 2)])
  assert.equal(new Set([first, ...one.map((note) => note.id), ...other.map((note) => note.id)]).size, 5)
  assert.deepEqual(await next(userId, 10), [])
})

test('getProcessingStats: abandoned locks are cleaned up first', async () => {
  const [userId] = await notes(3)
  await processingService.processBatch(userId, 1)
  const [abandoned] = await next(userId, 1)
  await minutesPass(16, abandoned!.id)
  const stats = await processingService.getProcessingStats(userId)
  assert.deepEqual(stats, { total: 3, pending: 1, processing: 0, completed: 1, failed: 1 })
})

test('processNote: once, and again only if forced; not a note of another user', async () => {
  const [userId, note] = await notes(1)
  const busy = { success: false, error: 'Note is currently being processed' }
  assert.deepEqual(await processingService.processNote(note!, userId, false), { success: true })
  assert.deepEqual(await processingService.processNote(note!, userId, false), busy)
  assert.deepEqual(await processingService.processNote(note!, userId, true), { success: true })
  const stranger = await processingService.processNote(note!, randomUUID(), false)
  assert.deepEqual(stranger, { success: false, error: 'Note not found' })
})

test('a step that fails: the error is recorded, and the lock released', async () => {
  const [userId, note] = await notes(1)
  await pool.query('update notes set audio = null where id = $1', [note])
  const error = 'the note has no audio'
  assert.deepEqual(await processingService.processNote(note!, userId), { success: false, error })
  assert.deepEqual(await status(note), { locked: false, processed: false, attempts: 1, error })
})

test('reset_stuck_processing: everything that is not processed is as new', async () => {
  const [, note] = await notes(1)
  await acquire(note)
  // It would reset the notes of all users, so it is rolled back.
  const client = await pool.connect()
  await client.query('begin')
  await client.query('select reset_stuck_processing(p_all => true)')
  const { rows } = await client.query('select processing_started_at, processing_attempts from notes where id = $1', [note])
  await client.query('rollback')
  client.release()
  assert.deepEqual(rows, [{ processing_started_at: null, processing_attempts: 0 }])
})

test('a token tells who was overtaken; without one, a late release ends another’s lock', async () => {
  const [, note] = await notes(1)
  const mine = await call<number>('acquire_processing_lock_token', { p_note_id: note })
  await minutesPass(16, note!)
  const theirs = await call<number>('acquire_processing_lock_token', { p_note_id: note })
  assert.ok(theirs > mine)
  assert.equal(await call('release_processing_lock', { p_note_id: note, p_token: mine }), false)
  assert.equal((await status(note)).locked, true)
  assert.equal(await release(note), true, 'the document’s own release does not know')
})

test('from: the lock status of one note, as in the document', async () => {
  const [, noteId] = await notes(1)
  const check = () =>
    supabase.from('notes').select('processing_started_at, processed_at').eq('id', noteId).single()
  const flags = async () => {
    const { data: note, error } = await check()
    if (error) throw error
    return [!!note.processing_started_at, !!note.processed_at]
  }
  assert.deepEqual(await flags(), [false, false])
  await acquire(noteId)
  assert.deepEqual(await flags(), [true, false])
  await release(noteId)
  assert.deepEqual(await flags(), [false, true])
  const none = await supabase.from('notes').select('id').eq('id', randomUUID()).single()
  assert.match(none.error!.message, /no\) rows/)
})

test('an error is answered, as supabase.rpc does, and not thrown', async () => {
  const { data, error } = await supabase.rpc('acquire_processing_lock', { p_note_id: randomUUID(), p_lock_timeout_minutes: 0 })
  assert.equal(data, null)
  assert.match(error!.message, /must be above 0/)
})
