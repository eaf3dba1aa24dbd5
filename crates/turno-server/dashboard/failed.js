// Failed items and their errors. An administrator requeues or discards them.
import { digits, get, path } from './api.js';
import { ask, offered } from './ask.js';
import { discardItems, requeueItems } from './actions.js';
import { $, button, el, show, write } from './dom.js';
import { clock, json, number } from './format.js';
import { fold, found, list } from './list.js';
import { state } from './state.js';
import { t } from './words.js';

/** Maximum number of queues whose failed items are requested, and of items per queue. */
const QUEUES = 10;
const ITEMS = 20;
/** Interval of the requests in ms while the count stays the same: one item may have gone and another failed. */
const AGAIN = 15_000;

/** Responses by queue: the count of failed items at the time, and the items. */
const known = new Map();
let isAsking = false;

/** Requests the items of queues that have changed, one queue after the other. */
export async function look() {
  for (const name of known.keys()) if (!state.queues.get(name)?.failed) known.delete(name);
  const troubled = [...state.queues.values()].filter((queue) => queue.failed > 0).slice(0, QUEUES);
  const stale = troubled.find((queue) => {
    const { failed, at } = known.get(queue.queue) ?? {};
    return failed !== queue.failed || Date.now() - at > AGAIN;
  });
  if (!stale || isAsking) return;
  isAsking = true;
  try {
    const { items } = await get(path('v1/inbox', stale.queue, `/items?state=failed&limit=${ITEMS}`));
    known.set(stale.queue, { failed: stale.failed, at: Date.now(), items });
  } catch {
    // Retried after AGAIN.
    known.set(stale.queue, { failed: stale.failed, at: Date.now(), items: [] });
  } finally {
    isAsking = false;
  }
  draw();
  look();
}

const words = (item) => [digits(item.id), item.key, item.group, item.worker, JSON.stringify(item.payload), ...item.errors.map((error) => error.error)];

/** The last error. */
export const last = (errors) => {
  const error = errors.at(-1);
  if (!error) return t('no_error');
  return error.kind === 'abandoned' ? t('abandoned') : error.error;
};

/** All errors, one per line. */
export const every = (errors) => errors.map((error) => [error.attempt, clock(error.at), error.worker, error.kind === 'abandoned' ? t('abandoned') : error.error].filter((word) => word != null).join('  ')).join('\n');

function make({ queue, item }) {
  const name = el('span', { class: 'name' }, t('item', digits(item.id)));
  const about = el('span', { class: 'tags' });
  const error = el('span', { class: 'error' });
  const payload = fold(t('payload'), json(item.payload));
  const errors = fold(t('errors'), every(item.errors));
  const one = button(t('requeue'), () => revive(queue, item), 'r');
  const never = button(t('discard'), () => discard(queue, item), 'd', 'bad');
  one.setAttribute('aria-label', `${t('requeue')} ${queue} ${t('item', digits(item.id))}`);
  never.setAttribute('aria-label', `${t('discard')} ${queue} ${t('item', digits(item.id))}`);
  const row = el('li', { class: 'row failed-item' },
    el('span', { class: 'what' }, name, about, error),
    el('span', { class: 'acts' }, one, never), el('span', { class: 'folds' }, payload, errors));
  row.update = ({ item }) => {
    write(about, [item.key, t('attempts', item.attempts), item.worker && t('worker', item.worker), item.at && clock(item.at)].filter(Boolean).join(' · '));
    write(error, last(item.errors));
    payload.update(json(item.payload));
    errors.update(every(item.errors));
    show(errors, item.errors.length > 1);
    offered(one, 'admin');
    offered(never, 'admin');
  };
  return row;
}

/** The button for all failed items of a queue. */
export function allOf(queue) {
  const act = button('', () => reviveAll(queue), 'r');
  act.update = (failed) => {
    write(act, t('requeue_all', number(failed)));
    act.setAttribute('aria-label', `${act.textContent} ${queue}`);
    offered(act, 'admin', failed > 0);
  };
  return act;
}

/** The heading of a queue, above its items. */
const heading = ({ queue }) => Object.assign(el('li', { class: 'whose' }, el('span', { class: 'name' }, queue)), { update() {} });

function revive(queue, item) {
  ask({
    title: t('requeue_title'), what: t('requeue_what', t('item', digits(item.id)), queue), go: t('requeue_go'),
    action: async (_, why) => t('requeued', number((await requeueItems(queue, [item.id], why)).requeued)),
  });
}

function discard(queue, item) {
  ask({
    title: t('item_discard_title'), what: t('item_discard_what', t('item', digits(item.id)), queue), go: t('item_discard_go'), kind: 'bad',
    action: async (_, why) => t('item_discarded', number((await discardItems(queue, [item.id], why)).discarded)),
  });
}

function reviveAll(queue) {
  const failed = number(state.queues.get(queue)?.failed ?? 0);
  ask({
    title: t('requeue_all', failed).replace('…', '?'), what: t('requeue_all_what', failed, queue), go: t('requeue_go'),
    action: async (_, why) => t('requeued', number((await requeueItems(queue, undefined, why)).requeued)),
  });
}

export function draw() {
  const things = [];
  let hidden = 0;
  for (const [queue, { failed, items }] of known) {
    const fitting = items.filter((item) => found(queue, ...words(item)));
    if (fitting.length) things.push({ queue }, ...fitting.map((item) => ({ queue, item })));
    hidden += Math.max(failed - items.length, 0);
  }
  list('failed', {
    things, key: ({ queue, item }) => `${queue}\n${item ? digits(item.id) : ''}`, make: (thing) => (thing.item ? make(thing) : heading(thing)),
    says: hidden ? t('more', number(hidden)) : '',
  });
  show($('failed'), things.length > 0);
}
