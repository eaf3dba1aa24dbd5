// npx tsx scripts/process-notes.ts cron | batch USER | manual USER NOTE [--limit N] [--who NAME] [--without-locks]
//
// Runs one trigger once.

import { parseArgs } from 'node:util'

import { ProcessingService } from '../lib/processing-service.ts'
import { close } from '../lib/supabase.ts'
import { UnprotectedService } from '../lib/unprotected-service.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    limit: { type: 'string', default: '10' },
    who: { type: 'string' },
    'without-locks': { type: 'boolean', default: false },
  },
})
const [trigger, userId = null, noteId] = positionals
const who = values.who ?? trigger ?? 'unknown'
const limit = Number(values.limit)

if (values['without-locks']) {
  const before = new UnprotectedService(who)
  await (noteId ? before.processNote(noteId) : before.processBatch(userId, limit))
} else {
  const processingService = new ProcessingService(who)
  const results =
    noteId && userId
      ? new Map([[noteId, await processingService.processNote(noteId, userId, false)]])
      : await processingService.processBatch(userId, limit)
  for (const [note, result] of results) console.log(`${who}: note ${note}: ${JSON.stringify(result)}`)
}
await close()
