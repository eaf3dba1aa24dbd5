// pg-boss. Its guide to workers recommends, for speed: batches (`batchSize`), several workers in a process
// (`localConcurrency`), and to fetch on without a pause while batches are full (`burstWhenBatchFull`). That does not exist for
// single jobs, so consumers of one job at a time call `fetch` and `complete`. Maintenance and schedules are off, because only
// one process of an application needs them. Completed jobs are kept, its default: deleting them costs another statement.

import { setTimeout as sleep } from 'node:timers/promises';
import { PgBoss } from 'pg-boss';
import { measure } from './measure.mjs';

const QUEUE = 'bench';
/** Poll interval of an idle consumer, the shortest that it accepts, and of one that calls `fetch`. */
const POLL_SECONDS = 0.5;
const REST_MS = 5;

class PgBossPeer {
  left = `select count(*) from pgboss.job where name = '${QUEUE}' and state <> 'completed'`;

  static async open(plan) {
    const peer = new PgBossPeer();
    peer.plan = plan;
    const notify = plan.mode === 'latency';
    peer.boss = new PgBoss({
      connectionString: plan.store,
      max: plan.share + 4,
      migrate: plan.share === 0,
      supervise: false,
      schedule: false,
      useListenNotify: notify,
    });
    peer.boss.on('error', (error) => console.error(error));
    await peer.boss.start();
    if (plan.share === 0) await peer.boss.createQueue(QUEUE, { notify });
    return peer;
  }

  async push(items) {
    await this.boss.insert(
      QUEUE,
      items.map((data) => ({ data })),
    );
  }

  async start(handle) {
    if (this.plan.mode === 'single') {
      this.stopping = false;
      this.loops = Array.from({ length: this.plan.share }, () => this.loop(handle));
      return;
    }
    const batchSize = this.plan.mode === 'drain' ? this.plan.batch : 1;
    const options = {
      batchSize,
      localConcurrency: this.plan.share,
      pollingIntervalSeconds: POLL_SECONDS,
      burstWhenBatchFull: true,
    };
    await this.boss.work(QUEUE, options, async (jobs) => handle(jobs.length));
  }

  async loop(handle) {
    while (!this.stopping) {
      const [job] = await this.boss.fetch(QUEUE);
      if (job) {
        handle(1);
        await this.boss.complete(QUEUE, job.id);
      } else {
        await sleep(REST_MS);
      }
    }
  }

  async stop() {
    this.stopping = true;
    await (this.loops ? Promise.all(this.loops) : this.boss.offWork(QUEUE));
  }

  note() {
    const { mode, batch, consumers } = this.plan;
    switch (mode) {
      case 'push':
        return `insert, batch ${batch}, 1 client`;
      case 'drain':
        return `completed jobs are kept, batch ${batch}, ${consumers} consumers`;
      case 'single':
        return `fetch + complete, completed jobs are kept, ${consumers} consumers`;
      default:
        return 'useListenNotify, 1 idle consumer';
    }
  }

  async close() {
    await this.boss.stop({ graceful: false });
  }
}

await measure('pg-boss', PgBossPeer);
