// The state of the page: what the stream has sent, and what has changed with time since.
import { get } from './api.js';
import { sample } from './samples.js';

/** Maximum number of history entries. */
const PAST = 200;

export const state = {
  locks: new Map(), held: 0, moreLocks: false,
  queues: new Map(), moreQueues: false,
  outbox: null,
  once: new Map(), moreOnce: false,
  history: [], moreHistory: false,
  /** `connecting`, `live`, `lost`, `down`. */
  connection: 'connecting',
  /** The problem of the server's last response, if there was one. */
  problem: null,
  me: null,
};

/** Difference between the store's clock and ours, in ms. */
let skew = 0;
export const now = () => Date.now() + skew;
/** Sets the store's clock from the `Date` header, which is a rough value. Locks give a better one. */
export function date(text) {
  const time = Date.parse(text ?? '');
  if (time && Math.abs(time - Date.now()) > 2000) skew = time - Date.now();
}

const nameOf = (lock) => `${lock.resource}\n${lock.owner}`;

function keep(lock) {
  const old = state.locks.get(nameOf(lock));
  const expires = Date.parse(lock.expires_at);
  skew = expires - lock.remaining_ms - Date.now();
  // A full bar is the remaining time when this expiry was new. For a lock that is older than the page, it is the whole lease.
  const whole = old && old.expires_at !== lock.expires_at ? lock.remaining_ms
    : old?.whole ?? Math.max(expires - Date.parse(lock.acquired_at), 1);
  state.locks.set(nameOf(lock), { ...lock, until: Date.now() + lock.remaining_ms, whole });
}

const aged = (stats) => ({ ...stats, since: stats.oldest_pending_ms == null ? null : Date.now() - stats.oldest_pending_ms });

/** Waiting time of the oldest pending entry in ms; null if nothing is pending. */
export const age = (stats) => (stats.since == null ? null : Math.max(Date.now() - stats.since, 0));

/** Adds history entries: newest first, without duplicates. */
function remember(entries) {
  const known = new Set(state.history.map((entry) => entry.id));
  const fresh = entries.filter((entry) => entry.id != null && !known.has(entry.id));
  state.history = [...fresh, ...state.history].sort((a, b) => b.id - a.id);
  if (state.history.length > PAST) {
    state.history.length = PAST;
    state.moreHistory = true;
  }
}

const tell = {
  snapshot(all) {
    state.locks.clear();
    all.locks.locks.forEach(keep);
    state.held = all.locks.held;
    state.moreLocks = all.locks.more;
    state.queues = new Map(all.queues.queues.map((queue) => [queue.queue, aged(queue)]));
    state.moreQueues = all.queues.more;
    state.outbox = all.outbox ? aged(all.outbox) : null;
    state.once = new Map(all.once.keys.map((key) => [key.key, key]));
    state.moreOnce = all.once.more;
  },
  locks(news) {
    for (const lock of news.gone) state.locks.delete(nameOf(lock));
    [...news.added, ...news.changed].forEach(keep);
    state.held = news.held;
    state.moreLocks = news.more;
  },
  queues(news) {
    for (const name of news.gone) state.queues.delete(name);
    for (const queue of news.changed) state.queues.set(queue.queue, aged(queue));
    state.moreQueues = news.more;
  },
  outbox(stats) { state.outbox = aged(stats); },
  once(news) {
    for (const key of news.gone) state.once.delete(key);
    for (const key of news.changed) state.once.set(key.key, key);
    state.moreOnce = news.more;
  },
  history(news) {
    remember(news.history);
    if (news.more) past();
  },
  store(news) { state.connection = news.up ? 'live' : 'down'; },
};

export function apply(name, data) {
  tell[name]?.(data);
  sample(state);
}

/** Loads the history from before the stream began. */
export async function past() {
  const page = await get('v1/history?limit=100');
  remember(page.history);
  state.moreHistory ||= page.next != null;
}

export function forget() {
  state.locks.clear();
  state.queues.clear();
  state.once.clear();
  Object.assign(state, { held: 0, outbox: null, history: [], moreHistory: false, connection: 'connecting', problem: null, me: null });
}
