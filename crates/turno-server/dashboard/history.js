// The history, newest first. Late calls are marked.
import { el, mark, show, write } from './dom.js';
import { clock, machine, number, person, span } from './format.js';
import { found, list } from './list.js';
import { state } from './state.js';
import { t } from './words.js';

/** A release or renewal that was stale or came after the expiry: the holder worked on after it had lost the lock. */
const LATE = new Set(['late', 'renewed_late']);
/** Operator actions. */
const FORCED = new Set(['broken', 'requeued', 'reset', 'discarded', 'forgotten', 'resolved']);

/** The label of an event. Some have a name that the page already uses with another meaning. */
const word = (event) => {
  const own = t(`${event}_event`);
  return own === `${event}_event` ? t(event) : own;
};

function make(entry) {
  const badge = el('span', { class: 'badge' }, word(entry.event));
  const isLate = LATE.has(entry.event);
  const about = el('span', { class: 'tags' });
  const reason = el('span', { class: 'reason' });
  const row = el('li', { class: 'row past' },
    el('time', { datetime: entry.at }, clock(entry.at)), ' ', badge,
    isLate ? el('span', { class: 'vh' }, ` ${t('late_mark')} `) : null,
    // Entries of the outbox have no name.
    el('span', { class: 'name' }, entry.resource || t('outbox')), about, reason);
  mark(row, 'late', isLate);
  mark(row, 'forced', FORCED.has(entry.event));
  row.update = (entry) => {
    const isLock = !entry.part || entry.part === 'lock';
    const took = entry.acquired_at && Date.parse(entry.at) - Date.parse(entry.acquired_at);
    const whose = isLock ? [person(entry), entry.description, machine(entry)] : [t(`part_${entry.part}`), entry.count != null && `× ${number(entry.count)}`];
    write(about, [...whose, took > 0 && t('held_so', span(took))].filter(Boolean).join(' · '));
    const why = entry.event === 'late' ? t(`late_${entry.reason}`) : entry.reason && t('because', entry.reason);
    write(reason, [entry.actor && t('by', entry.actor), why].filter(Boolean).join(' '));
    show(reason, Boolean(entry.reason || entry.actor));
  };
  return row;
}

export function draw() {
  const things = state.history.filter((entry) => found(entry.resource, entry.user, entry.service, entry.description, entry.host, entry.actor, entry.reason, entry.owner, word(entry.event), clock(entry.at)));
  list('history', {
    things, all: state.history.length, key: (entry) => entry.id, make, says: '',
    beyond: state.moreHistory && things.length > 99 && 'turno history',
    empty: t('history_empty'), commands: ['turno run --lock nightly --ttl 30s -- ./report.sh'],
  });
}
