// The original processing: read pending notes, process them, mark them as processed.

import { type Note, Services } from './services.ts'
import { pool } from './supabase.ts'

export class UnprotectedService {
  readonly #services: Services

  constructor(who: string) {
    this.#services = new Services(who)
  }

  async processNote(noteId: string) {
    const { rows } = await pool.query<Note>('select * from notes where id = $1', [noteId])
    await this.#process(rows)
  }

  async processBatch(userId: string | null, batchSize: number) {
    const { rows } = await pool.query<Note>(
      `select * from notes
       where processed_at is null and ($1::uuid is null or user_id = $1)
       order by processing_attempts, id limit $2`,
      [userId, batchSize],
    )
    await this.#process(rows)
  }

  async #process(notes: Note[]) {
    for (const note of notes) {
      await this.#services.process(note)
      // A lost update is possible: other processes may have incremented the counter since it was read.
      await pool.query('update notes set processed_at = now(), processing_attempts = $2 where id = $1', [
        note.id,
        (note.processing_attempts ?? 0) + 1,
      ])
    }
  }
}
