// Samples of the stream's counts for the plots, taken every two seconds.
const EVERY = 2000;
/** Time range of the plots in ms. */
export const WINDOW = 5 * 60_000;

const series = new Map();
let next = 0;

/** Takes a sample if it is due: of each queue, and of the outbox under the empty name. */
export function sample(state) {
  const at = Date.now();
  if (at < next) return;
  next = at + EVERY;
  const seen = new Set();
  const take = (name, stats, done) => {
    seen.add(name);
    const points = series.get(name) ?? [];
    const oldest = stats.since == null ? 0 : Math.max(at - stats.since, 0);
    points.push({ at, done, inside: stats.pending + stats.processing, oldest });
    while (points[0].at < at - WINDOW) points.shift();
    series.set(name, points);
  };
  for (const queue of state.queues.values()) take(`q${queue.queue}`, queue, queue.completed);
  if (state.outbox) take('', state.outbox, state.outbox.dispatched);
  for (const name of series.keys()) if (!seen.has(name)) series.delete(name);
}

const points = (name) => series.get(name) ?? [];

/** Waiting time of the oldest pending entry. */
export const waits = (name) => points(name).map(({ at, oldest }) => ({ at, value: oldest }));

/** Completions per second, smoothed over ten seconds. */
export function rates(name) {
  const all = points(name);
  return all.map((point, index) => {
    const before = all[Math.max(index - 5, 0)];
    const seconds = (point.at - before.at) / 1000;
    return { at: point.at, value: seconds > 0 ? Math.max(point.done - before.done, 0) / seconds : 0 };
  });
}

/** Average time from push to completion in ms, by Little's law; null if nothing was completed. */
export function through(name) {
  const all = points(name).slice(-31);
  if (all.length < 2) return null;
  const done = all.at(-1).done - all[0].done;
  const ms = all.at(-1).at - all[0].at;
  if (done <= 0 || ms <= 0) return null;
  const inside = all.reduce((sum, point) => sum + point.inside, 0) / all.length;
  return (inside / done) * ms;
}
