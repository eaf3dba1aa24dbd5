// The outbox: how far the relay is behind, and the events that the sink refused.
import { get } from './api.js';
import { ask, offered } from './ask.js';
import { discardEvents, requeueEvents } from './actions.js';
import { $, button, clear, el, mark, show, write } from './dom.js';
import { every, last } from './failed.js';
import { clock, json, number } from './format.js';
import { fold, found, list, teach } from './list.js';
import { counts, plots } from './queues.js';
import { state } from './state.js';
import { t } from './words.js';

const EVENTS = 50;
/** Interval of the requests in ms while the counts stay the same: one event may have gone and another died. */
const AGAIN = 15_000;

let known = { name: '', at: 0, events: [] };
let isAsking = false;
let stats = null;

/** Requests the dead and blocked events when their number has changed. */
export async function look() {
  const { dead = 0, blocked = 0 } = state.outbox ?? {};
  const name = `${dead} ${blocked}`;
  if (isAsking || (known.name === name && (name === '0 0' || Date.now() - known.at < AGAIN))) return;
  isAsking = true;
  try {
    const lists = [];
    if (dead) lists.push(get(`v1/outbox/events?state=dead&limit=${EVENTS}`));
    if (blocked) lists.push(get(`v1/outbox/events?state=blocked&limit=${EVENTS}`));
    known = { name, at: Date.now(), events: (await Promise.all(lists)).flatMap((page) => page.events) };
  } catch {
    // Retried with the next call.
  } finally {
    isAsking = false;
  }
  draw();
}

function make(event) {
  const name = el('span', { class: 'name' }, event.type ?? event.id);
  const about = el('span', { class: 'tags' });
  const error = el('span', { class: 'error' });
  const payload = fold(t('payload'), json(event.payload));
  const errors = fold(t('errors'), every(event.errors));
  payload.open = true;
  const again = button(t('requeue'), () => revive(event), 'r');
  const never = button(t('discard'), () => giveUp(event), 'd', 'bad');
  again.setAttribute('aria-label', `${t('requeue')} ${event.type} ${event.id}`);
  never.setAttribute('aria-label', `${t('discard')} ${event.type} ${event.id}`);
  const row = el('li', { class: 'row dead-event' },
    el('span', { class: 'what' }, name, about, error),
    el('span', { class: 'acts' }, again, never), el('span', { class: 'folds' }, payload, errors));
  row.update = (event) => {
    write(about, [event.key && t('key', event.key), event.state === 'blocked' && t('blocks'), t('refused', event.refused),
      event.doubtful > 0 && t('doubtful'), event.emitted_at && clock(event.emitted_at), event.id].filter(Boolean).join(' · '));
    write(error, last(event.errors));
    payload.update(json(event.payload));
    errors.update(every(event.errors));
    show(errors, event.errors.length > 1);
    offered(again, 'admin');
    offered(never, 'admin');
  };
  return row;
}

function revive(event) {
  ask({
    title: t('event_requeue_title'), what: t('event_requeue_what', event.type), go: t('requeue_go'),
    action: async (_, why) => {
      await requeueEvents([event.id], why);
      return t('event_requeued');
    },
  });
}

function giveUp(event) {
  ask({
    title: t('discard_title'), what: t('discard_what', event.type), go: t('discard_go'), kind: 'bad',
    action: async (_, why) => {
      await discardEvents([event.id], why);
      return t('discarded');
    },
  });
}

/** Removes the statistics, so that they are drawn in another language. */
export function anew() {
  clear($('outbox-stats'));
  stats = null;
}

function drawStats() {
  if (!stats) {
    const states = counts(['pending', 'processing', 'scheduled', 'dead', 'blocked', 'dispatched']);
    const parked = el('span', { class: 'count' });
    states.append(parked);
    const drawn = plots('', 'published', 'lag');
    const row = el('div', { class: 'row queue' }, el('span', { class: 'what' }, states), drawn);
    stats = { row, states, parked, drawn };
    $('outbox-stats').append(row);
  }
  stats.states.update(state.outbox);
  stats.drawn.update(state.outbox, t('in_time'));
  mark(stats.row, 'trouble', state.outbox.dead + state.outbox.blocked > 0);
  write(stats.parked, state.outbox.parked_keys ? t('parked', number(state.outbox.parked_keys)) : '');
}

export function draw() {
  const isUsed = (state.outbox?.total ?? 0) > 0;
  if (isUsed) drawStats();
  show($('outbox-stats'), isUsed);
  const isHidden = !state.outbox && state.connection !== 'connecting';
  teach('outbox', !isUsed && (isHidden ? t('outbox_hidden') : t('outbox_empty')), isHidden ? []
    : ['turno outbox emit TicketCreatedEvent \'{"ticket": 1}\'', 'turno outbox relay --sink amqp://localhost']);
  const events = state.outbox ? known.events : [];
  const things = events.filter((event) => found(event.type, event.id, event.key, event.correlation_id, JSON.stringify(event.payload), ...event.errors.map((error) => error.error)));
  const hidden = (state.outbox?.dead ?? 0) + (state.outbox?.blocked ?? 0) - events.length;
  list('dead', { things, key: (event) => event.id, make, says: hidden > 0 ? t('more', number(hidden)) : '' });
  show($('dead'), things.length > 0);
}
