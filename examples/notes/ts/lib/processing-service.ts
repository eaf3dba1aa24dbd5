// The document's processing service. All it needs for locks is the names of a few SQL functions.

import { type Note, Services } from './services.ts'
import { call, ok, supabase } from './supabase.ts'

export type Result = { success: true } | { success: false; error: string }
export type Stats = { total: number; pending: number; processing: number; completed: number; failed: number }

const LOCK_TIMEOUT_MINUTES = 15

export class ProcessingService {
  readonly #services: Services

  constructor(
    who: string,
    readonly lockTimeoutMinutes = LOCK_TIMEOUT_MINUTES,
  ) {
    this.#services = new Services(who)
  }

  /** Processes one note of a user. A processed note is processed again only with `forceReprocess`. */
  async processNote(noteId: string, userId: string, forceReprocess = false): Promise<Result> {
    const owned = await ok(supabase.from('notes').select('id').eq('id', noteId).eq('user_id', userId))
    if (owned.length === 0) return { success: false, error: 'Note not found' }
    if (forceReprocess) {
      const unprocessed = { processed_at: null, transcription: null, analysis: null }
      await ok(supabase.from('notes').update(unprocessed).eq('id', noteId).not('processed_at', 'is', null))
    }
    const { data: lockAcquired, error } = await supabase.rpc<boolean>('acquire_processing_lock', {
      p_note_id: noteId,
      p_lock_timeout_minutes: this.lockTimeoutMinutes,
    })
    if (error) return { success: false, error: error.message }
    if (!lockAcquired) {
      // Note is already being processed or already completed
      return { success: false, error: 'Note is currently being processed' }
    }
    return this.#processJobWithLock(noteId)
  }

  /** Processes the next notes, of one user or of all. Each is locked when it is retrieved. */
  async processBatch(userId: string | null, batchSize: number): Promise<Map<string, Result>> {
    await this.cleanupAbandonedLocks()
    const notes = await call<Note[]>('get_next_notes_for_processing', {
      p_user_id: userId,
      p_limit: batchSize,
      p_lock_timeout_minutes: this.lockTimeoutMinutes,
    })
    const results = new Map<string, Result>()
    for (const note of notes) results.set(note.id, await this.#processJobWithLock(note.id))
    return results
  }

  async #processJobWithLock(noteId: string): Promise<Result> {
    try {
      const note = await ok(supabase.from<Note>('notes').select().eq('id', noteId).single())
      await this.#services.process(note)
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      await call('release_processing_lock_with_error', { p_note_id: noteId, p_error_message: message })
      return { success: false, error: message }
    }
    await call('release_processing_lock', { p_note_id: noteId })
    return { success: true }
  }

  async cleanupAbandonedLocks(): Promise<number> {
    const cleaned = await call<number>('cleanup_abandoned_processing_locks', {
      p_timeout_minutes: this.lockTimeoutMinutes,
    })
    if (cleaned > 0) console.log(`${cleaned} abandoned locks cleaned up`)
    return cleaned
  }

  /** Returns the number of notes per state. Abandoned locks are cleaned up first, so that they do not count as processing. */
  async getProcessingStats(userId: string | null = null): Promise<Stats> {
    await this.cleanupAbandonedLocks()
    const [stats] = await call<Stats[]>('get_processing_stats', { p_user_id: userId })
    if (!stats) throw new Error('no statistics')
    return stats
  }

  /** Resets stuck notes, or all unprocessed ones, to pending. */
  async resetStuckProcessing(all = false): Promise<number> {
    return call<number>('reset_stuck_processing', { p_all: all, p_timeout_minutes: this.lockTimeoutMinutes })
  }
}
