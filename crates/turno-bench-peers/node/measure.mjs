// The four measurements, the same as those of the peers in Rust: see src/measure.rs. One line of JSON is the result.
//
// A process of Node.js runs JavaScript on one thread, so consumers are distributed over as many processes as there are cores,
// as the tasks of a Rust peer are over threads. Items are counted as they are handled, but the time ends when the database has
// none left that is not durably complete.
//
// A peer is a class with these methods:
//   static open(plan)  connects; creates the tables, unless it is in a process of consumers (`plan.share > 0`)
//   push(items)        stores items durably with one call
//   start(handle)      starts `plan.share` consumers; `handle(n)` is the handler, which only counts
//   stop()             stops the consumers and waits for what they are doing
//   left               text of the SQL statement that counts the items that are not durably complete
//   note()             the settings of the measurement
//   close()            closes its connections

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import pg from 'pg';

/** Timeout of a measurement, longer than the slowest peer needs. */
const TIMEOUT_MS = 900_000;
/** Poll interval for the completion of the last items, after all were handled. */
const LOOK_MS = 2;
/** Interval in which a process of consumers reports how many items it has handled. */
const REPORT_MS = 10;
/** Items that are pushed and drained before the measurement, so that JavaScript is compiled and connections are open. */
const WARM_UP_ITEMS = 500;
/** Number of items in a latency measurement, and the pause between two of them. */
const LATENCIES = 200;
const REST_MS = 20;

const MODES = ['push', 'drain', 'single', 'latency'];

export async function measure(name, Peer) {
  const share = Number(process.env.TURNO_BENCH_SHARE ?? 0);
  const plan = { ...parsePlan(), share };
  if (share > 0) {
    await consume(await Peer.open(plan));
  } else {
    const result = await measured(await Peer.open(plan), plan);
    console.log(JSON.stringify({ peer: name, mode: plan.mode, ...result }));
  }
  process.exit(0);
}

function parsePlan() {
  const number = (fallback) => ({ type: 'string', default: String(fallback) });
  const { values } = parseArgs({
    options: {
      store: { type: 'string' },
      mode: { type: 'string', default: 'drain' },
      items: number(50_000),
      payload: number(100),
      batch: number(500),
      consumers: number(4),
    },
  });
  const plan = { store: values.store, mode: values.mode };
  for (const key of ['items', 'payload', 'batch', 'consumers']) {
    plan[key] = Number(values[key]);
    check(plan[key] >= 1, `--${key} must be a number of at least 1`);
  }
  check(plan.store, 'give a new private database with --store');
  check(MODES.includes(plan.mode), `--mode is one of ${MODES.join(', ')}`);
  return plan;
}

async function measured(peer, plan) {
  const database = new pg.Client({ connectionString: plan.store });
  await database.connect();
  const left = async () => Number((await database.query(peer.left)).rows[0].count);
  const run = { peer, plan, database, left };
  const result = await (plan.mode === 'push' ? push(run) : plan.mode === 'latency' ? latency(run) : drain(run));
  result.note = peer.note();
  await peer.close();
  await database.end();
  return result;
}

async function push({ peer, plan, left }) {
  await pushAll(peer, plan, WARM_UP_ITEMS);
  const seconds = await pushAll(peer, plan, plan.items);
  const stored = await left();
  check(stored === WARM_UP_ITEMS + plan.items, `${stored} items are stored`);
  return rate(plan.items, seconds);
}

/** Pushes items in batches and returns the time in seconds. */
async function pushAll(peer, plan, items) {
  const frame = '{"body":""}'.length;
  const item = { body: 'x'.repeat(Math.max(0, plan.payload - frame)) };
  const begin = performance.now();
  for (let missing = items; missing > 0; missing -= plan.batch) {
    await peer.push(new Array(Math.min(missing, plan.batch)).fill(item));
  }
  return (performance.now() - begin) / 1000;
}

async function drain({ peer, plan, database, left }) {
  const processes = await forkConsumers(plan);
  const drainAll = async (items) => {
    await pushAll(peer, plan, items);
    // Updates statistics, and prevents a checkpoint during the measurement.
    await database.query('vacuum analyze');
    await database.query('checkpoint');
    const stored = await left();
    check(stored === items, `${items} items were pushed, ${stored} are stored`);
    const begin = performance.now();
    processes.forEach((child) => {
      child.handled = 0;
      child.send('start');
    });
    const handled = () => processes.reduce((sum, child) => sum + child.handled, 0);
    const wait = async (pause, done) => {
      while (!(await done())) {
        check(performance.now() - begin < TIMEOUT_MS, `${handled()} of ${items} were handled`);
        await sleep(pause);
      }
    };
    await wait(REPORT_MS, () => handled() >= items);
    await wait(LOOK_MS, async () => (await left()) === 0);
    const seconds = (performance.now() - begin) / 1000;
    await Promise.all(processes.map((child) => ask(child, 'stop', 'stopped')));
    check(handled() === items, `${items} items were handled ${handled()} times`);
    return seconds;
  };
  await drainAll(WARM_UP_ITEMS);
  const seconds = await drainAll(plan.items);
  processes.forEach((child) => child.disconnect());
  return rate(plan.items, seconds);
}

/** Starts the processes of consumers, which are connected but idle. */
async function forkConsumers(plan) {
  const count = Math.min(plan.consumers, availableParallelism());
  const processes = [];
  for (let n = 0; n < count; n++) {
    const share = Math.floor(plan.consumers / count) + (n < plan.consumers % count ? 1 : 0);
    const child = fork(process.argv[1], process.argv.slice(2), {
      env: { ...process.env, TURNO_BENCH_SHARE: String(share) },
    });
    child.on('message', (message) => {
      if (typeof message === 'number') child.handled = message;
    });
    child.on('exit', (code) => check(code === 0, 'a process of consumers ended early'));
    processes.push(child);
  }
  await Promise.all(processes.map((child) => ask(child, undefined, 'ready')));
  return processes;
}

/** Sends a message and waits for the answer. */
async function ask(child, message, answer) {
  if (message) child.send(message);
  for (;;) {
    const [received] = await once(child, 'message');
    if (received === answer) return;
  }
}

/** A process of consumers: starts and stops them on request, and reports how many items they handled. */
async function consume(peer) {
  let handled = 0;
  let reported = 0;
  const report = () => {
    if (handled !== reported) process.send((reported = handled));
  };
  setInterval(report, REPORT_MS);
  process.on('disconnect', () => process.exit(0));
  process.on('message', async (message) => {
    if (message === 'start') {
      handled = reported = 0;
      await peer.start((items) => (handled += items));
    } else {
      await peer.stop();
      report();
      process.send('stopped');
    }
  });
  process.send('ready');
  await new Promise(() => {});
}

/** Time from pushing one item to an idle consumer of this process until it is handled. */
async function latency({ peer, plan }) {
  let handledAt;
  let wake = () => {};
  plan.share = 1;
  await peer.start(() => {
    handledAt = performance.now();
    wake();
  });
  const [sinceBegin, sinceReturn] = [[], []];
  const start = performance.now();
  for (let n = 0; n < LATENCIES; n++) {
    await sleep(REST_MS);
    const woken = new Promise((resolve) => (wake = resolve));
    const begin = performance.now();
    await pushAll(peer, plan, 1);
    const returned = performance.now();
    const timeout = sleep(TIMEOUT_MS, 'timeout', { ref: false });
    check((await Promise.race([woken, timeout])) !== 'timeout', 'an item was never handled');
    sinceBegin.push(handledAt - begin);
    sinceReturn.push(Math.max(0, handledAt - returned));
  }
  const result = rate(LATENCIES, (performance.now() - start) / 1000);
  await peer.stop();
  return { ...result, median_ms: median(sinceBegin), median_after_push_ms: median(sinceReturn) };
}

function rate(items, seconds) {
  return { items, seconds: rounded(seconds), per_second: rounded(items / seconds) };
}

function median(values) {
  return rounded(values.sort((a, b) => a - b)[Math.floor(values.length / 2)]);
}

/** Rounds to three decimals, more than the precision of such a figure. */
function rounded(figure) {
  return Math.round(figure * 1000) / 1000;
}

function check(holds, message) {
  if (holds) return;
  console.error(message);
  process.exit(1);
}
