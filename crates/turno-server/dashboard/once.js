// Once keys that are in flight or unknown. An operator has to decide about the unknown ones.
import { parse } from './api.js';
import { ask, offered } from './ask.js';
import { forgetKey, resolveKey } from './actions.js';
import { button, el, mark, show, write } from './dom.js';
import { number, span } from './format.js';
import { found, list } from './list.js';
import { now, state } from './state.js';
import { t } from './words.js';

function make(key) {
  let shown = key;
  const badge = el('span', { class: 'badge' });
  const about = el('span', { class: 'tags' });
  const help = el('span', { class: 'help' }, t('unknown_help'));
  const done = button(t('settle'), () => settle(shown), 'c');
  const never = button(t('forget'), () => forget(shown), 'f', 'bad');
  done.setAttribute('aria-label', `${t('settle')} ${key.key}`);
  never.setAttribute('aria-label', `${t('forget')} ${key.key}`);
  const row = el('li', { class: 'row key' },
    el('span', { class: 'what' }, el('span', { class: 'name' }, key.key), ' ', badge, about, help),
    el('span', { class: 'acts' }, done, never));
  row.update = (key) => {
    shown = key;
    const isUnknown = key.state === 'unknown';
    const expires = Date.parse(key.expires_at);
    write(badge, t(key.state));
    mark(row, 'trouble', isUnknown);
    write(about, [t('since', span(now() - Date.parse(key.began_at))), key.worker && t('worker', key.worker), key.attempt > 1 && t('run', key.attempt),
      isUnknown ? t('vanished', span(now() - expires)) : t('ends_in', span(expires - now())),
      key.late > 0 && t('late_answers', key.late)].filter(Boolean).join(' · '));
    show(help, isUnknown);
    offered(done, 'admin', isUnknown);
    offered(never, 'admin', isUnknown);
  };
  return row;
}

function forget(key) {
  ask({
    title: t('forget_title'), what: t('forget_what', key.key), go: t('forget_go'), kind: 'bad',
    action: async (_, why) => ((await forgetKey(key.key, why)).forgotten ? t('forgotten', key.key) : t('not_forgotten')),
  });
}

function settle(key) {
  ask({
    title: t('settle_title'), what: t('settle_what', key.key), go: t('settle_go'),
    more: [['answer', t('answer'), { tag: 'textarea', rows: 4, spellcheck: 'false' }]],
    action: async ({ answer }, why) => {
      await resolveKey(key.key, answer === undefined ? {} : { answer: read(answer) }, why);
      return t('settled', key.key);
    },
  });
}

function read(text) {
  try {
    return parse(text);
  } catch {
    throw new Error(t('bad_json'));
  }
}

export function draw() {
  const all = [...state.once.values()].sort((a, b) => (a.state === b.state ? (a.key < b.key ? -1 : 1) : a.state === 'unknown' ? -1 : 1));
  const things = all.filter((key) => found(key.key, key.worker, key.scope, key.fingerprint, t(key.state)));
  list('once', {
    things, all: all.length, key: (key) => key.key, make,
    says: summary(all),
    beyond: state.moreOnce && 'turno once --list',
    empty: t('once_empty'), commands: ['turno once pago/77 -- ./charge.sh 77'],
  });
}

export function summary(all) {
  const unknown = all.filter((key) => key.state === 'unknown').length;
  const flying = all.length - unknown;
  return [unknown && `${number(unknown)} ${t('unknown')}`, flying && `${number(flying)} ${t('in_flight')}`].filter(Boolean).join(' · ');
}
