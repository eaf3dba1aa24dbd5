// The queues: items per state, throughput and waiting time.
import { ask, offered } from './ask.js';
import { resetItems } from './actions.js';
import { button, el, mark, write } from './dom.js';
import { allOf } from './failed.js';
import { number, rate, span } from './format.js';
import { found, list } from './list.js';
import { plot } from './plot.js';
import { rates, through, waits } from './samples.js';
import { age, state } from './state.js';
import { t } from './words.js';

/** Counts with their labels. */
export function counts(names) {
  const places = names.map((name) => ({ name, value: el('b'), whole: null }));
  const whole = el('span', { class: 'counts' });
  for (const place of places) whole.append((place.whole = el('span', { class: `count ${place.name}` }, place.value, ' ', t(place.name))));
  whole.update = (stats) => {
    for (const { name, value, whole: place } of places) {
      write(value, number(stats[name]));
      mark(place, 'some', stats[name] > 0);
    }
  };
  return whole;
}

/** Two plots: throughput and waiting time. */
export function plots(series, done, waiting) {
  const speed = plot('speed', t(done));
  const delay = plot('delay', t(waiting));
  const whole = el('span', { class: 'plots' }, speed, delay);
  whole.update = (stats, calm) => {
    const rated = rates(series);
    const each = through(series);
    speed.update(rated, rate(rated.at(-1)?.value ?? 0), each > 100 ? t('through', span(each)) : '');
    const oldest = age(stats);
    delay.update(waits(series), oldest == null ? calm : span(oldest));
  };
  return whole;
}

function make(queue) {
  const name = el('span', { class: 'name' }, queue.queue);
  const states = counts(['pending', 'processing', 'scheduled', 'failed', 'completed']);
  const drawn = plots(`q${queue.queue}`, 'throughput', 'latency');
  const again = allOf(queue.queue);
  const act = button(t('reset'), () => reset(queue.queue), 's');
  act.setAttribute('aria-label', `${t('reset')} ${queue.queue}`);
  const row = el('li', { class: 'row queue' }, el('span', { class: 'what' }, name, states, el('span', { class: 'acts' }, again, act)), drawn);
  row.update = (stats) => {
    states.update(stats);
    drawn.update(stats, t('nothing_waits'));
    mark(row, 'trouble', stats.failed > 0);
    again.update(stats.failed);
    offered(act, 'admin', stats.processing > 0);
  };
  return row;
}

function reset(queue) {
  ask({
    title: t('reset_title'), what: t('reset_what', queue), go: t('reset_go'),
    more: [['older', t('older_than'), { required: true, value: '15m', pattern: '[0-9a-z ]+', maxlength: 20 }]],
    action: async ({ older }, why) => {
      const { reset } = await resetItems(queue, older, why);
      return t('was_reset', number(reset));
    },
  });
}

export function draw() {
  const all = [...state.queues.values()].sort((a, b) => (a.queue < b.queue ? -1 : 1));
  const things = all.filter((queue) => found(queue.queue));
  list('queues', {
    things, all: all.length, key: (queue) => queue.queue, make,
    says: things.length ? t('last_minutes') : '',
    beyond: state.moreQueues && 'turno inbox stats',
    empty: t('queues_empty'),
    commands: ['turno inbox push presentations \'{"id": 7}\'', 'turno inbox claim presentations --worker me'],
  });
}
