// Transcription and analysis, which cost money per call: the same stubs as in ../../src/service.rs.

import { ok, pool, supabase } from './supabase.ts'

export type Note = {
  id: string
  audio: string | null
  transcription: string | null
  analysis: string | null
  processing_attempts: number | null
}

export class Services {
  constructor(readonly who: string) {}

  async transcribe(note: Note): Promise<string> {
    if (!note.audio) throw new Error('the note has no audio')
    await this.#charge(note, 'transcription', 12)
    return `words of ${note.audio} by ${this.who}`
  }

  async analyse(note: Note, transcription: string): Promise<string> {
    await this.#charge(note, 'analysis', 6)
    return `gist of ${transcription}`
  }

  /** Charges first, and responds when no Gate is shut. */
  async #charge(note: Note, step: string, cents: number) {
    await pool.query('insert into charges (note_id, step, cents, who) values ($1, $2, $3, $4)', [
      note.id,
      step,
      cents,
      this.who,
    ])
    await pool.query('select pg_advisory_xact_lock_shared(hashtext($1), hashtext($2))', [this.who, step])
  }

  /** Transcribes and analyses. A step whose result is stored is not paid for again. */
  async process(note: Note) {
    let { transcription } = note
    if (transcription === null) {
      transcription = await this.transcribe(note)
      await ok(supabase.from<Note>('notes').update({ transcription }).eq('id', note.id))
    }
    if (note.analysis === null) {
      const analysis = await this.analyse(note, transcription)
      await ok(supabase.from<Note>('notes').update({ analysis }).eq('id', note.id))
    }
  }
}
