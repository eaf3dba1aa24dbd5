// The locks that are held: holder, description, remaining time and waiters.
import { ask, offered } from './ask.js';
import { breakLock } from './actions.js';
import { $, button, clear, el, mark, part, show, write } from './dom.js';
import { machine, number, person, span } from './format.js';
import { found, list } from './list.js';
import { now, state } from './state.js';
import { t } from './words.js';

/** Below this fraction of its lease, the remaining time is marked. */
const LITTLE = 0.2;

function make(lock) {
  let shown = lock;
  const name = el('span', { class: 'name' });
  const tags = el('span', { class: 'tags' });
  const who = el('span', { class: 'who-holds' });
  const what = el('span', { class: 'says' });
  const fill = el('span', { class: 'fill' });
  const left = el('span', { class: 'left' });
  const held = part('held', t('held_for'));
  const waiters = part('waiters', t('waiters'));
  const act = button(t('break'), () => force(shown), 'b', 'bad');
  const row = el('li', { class: 'row lock' },
    part('what', t('resource'), name, tags),
    part('whose', t('holder'), who, what),
    held,
    part('remaining', t('remaining'), left, el('span', { class: 'track', 'aria-hidden': 'true' }, fill)),
    waiters,
    el('span', { class: 'acts' }, act));
  row.update = (lock) => {
    shown = lock;
    const remaining = Math.max(lock.until - Date.now(), 0);
    const share = Math.min(remaining / lock.whole, 1);
    write(name, lock.resource);
    write(tags, [t('fencing', lock.token), lock.mode === 'shared' && t('shared'), lock.holds > 1 && t('holds', lock.holds)].filter(Boolean).join(' · '));
    write(who, person(lock));
    write(what, [lock.description, machine(lock)].filter(Boolean).join(' · '));
    write(held.value, span(now() - Date.parse(lock.acquired_at)));
    write(left, remaining ? span(remaining) : t('overdue'));
    fill.style.transform = `scaleX(${share.toFixed(4)})`;
    mark(row, 'little', share < LITTLE);
    write(waiters.value, lock.waiters ? number(lock.waiters) : '–');
    mark(waiters, 'some', lock.waiters);
    act.setAttribute('aria-label', `${t('break')} ${lock.resource}`);
    offered(act, 'admin');
  };
  return row;
}

function force(lock) {
  ask({
    title: t('break_title'), what: t('break_what', lock.resource, person(lock)), go: t('break_go'), kind: 'bad',
    action: async (_, why) => {
      await breakLock(lock, why);
      return t('broken', lock.resource);
    },
  });
}

export function draw() {
  const all = [...state.locks.values()].sort((a, b) => (a.resource < b.resource ? -1 : a.resource > b.resource ? 1 : 0));
  const things = all.filter((lock) => found(lock.resource, lock.user, lock.service, lock.description, lock.owner, lock.host, lock.token));
  list('locks', {
    things, all: all.length, key: (lock) => `${lock.resource}\n${lock.owner}\n${lock.token}`, make,
    says: state.held ? t('held', count()) : '',
    beyond: state.moreLocks && 'turno lock list',
    empty: t('locks_empty'),
    commands: ['turno lock acquire PRESTAMO/123 --ttl 300s --user 1 --description "Registro de pago"',
      'turno run --lock nightly --ttl 30s -- ./report.sh'],
  });
  show($('locks-head'), things.length > 0);
}

export const count = () => (state.held >= 1000 ? `${number(1000)}+` : number(state.held));

/** The column headings, where there is space for them. */
export function columns() {
  const head = $('locks-head');
  clear(head);
  for (const name of ['resource', 'holder', 'held_for', 'remaining', 'waiters']) head.append(el('span', {}, t(name)));
}
