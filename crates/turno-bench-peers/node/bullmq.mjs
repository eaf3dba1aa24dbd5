// BullMQ on its PostgreSQL backend, with what the "Tuning tips" of its guide to that backend recommend, except the one that
// gives up durability (`synchronous_commit = off`): as many pooled connections as concurrent jobs, and completed jobs removed
// at once. Concurrency is in the range that the guide measured as fastest (8 to 32).
//
// A job is claimed in the transaction that completes the previous one. BullMQ has no larger batches of claims or completions.

import { Queue, Worker, createPostgresBackend, runMigrations } from 'bullmq';
import pg from 'pg';
import { measure } from './measure.mjs';

const QUEUE = 'bench';
/** Concurrent jobs of each consumer in the drain. */
const HANDLERS = 8;

class BullMq {
  left = "select count(*) from bullmq.job where state <> 'completed'";

  static async open(plan) {
    const peer = new BullMq();
    peer.plan = plan;
    if (plan.share === 0) {
      const client = new pg.Client({ connectionString: plan.store });
      await client.connect();
      await runMigrations(client);
      await client.end();
      const connection = { connectionString: plan.store };
      peer.queue = new Queue(QUEUE, { connection }, createPostgresBackend);
    }
    return peer;
  }

  async push(items) {
    await this.queue.addBulk(items.map((data) => ({ name: 'item', data, opts: { removeOnComplete: true } })));
  }

  async start(handle) {
    const concurrency = this.plan.share * (this.plan.mode === 'drain' ? HANDLERS : 1);
    const connection = { connectionString: this.plan.store, max: concurrency };
    this.worker = new Worker(QUEUE, async () => handle(1), { connection, concurrency }, createPostgresBackend);
    this.worker.on('error', (error) => console.error(error));
    await this.worker.waitUntilReady();
  }

  async stop() {
    await this.worker.close();
  }

  note() {
    const { mode, batch, consumers } = this.plan;
    switch (mode) {
      case 'push':
        return `addBulk, batch ${batch}, 1 client`;
      case 'drain':
        return `concurrency ${HANDLERS * consumers}, completed jobs are removed`;
      case 'single':
        return `concurrency ${consumers}, completed jobs are removed`;
      default:
        return 'notify, 1 idle consumer';
    }
  }

  async close() {
    await this.queue?.close();
  }
}

await measure('bullmq', BullMq);
