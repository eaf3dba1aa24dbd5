// npx tsx scripts/reset-stuck-processing.ts [--all]
//
// Makes stuck notes pending again. With --all, for development, all that are not processed.

import { ProcessingService } from '../lib/processing-service.ts'
import { close } from '../lib/supabase.ts'

const processingService = new ProcessingService('reset')
console.log(`${await processingService.resetStuckProcessing(process.argv.includes('--all'))} notes reset`)
await close()
