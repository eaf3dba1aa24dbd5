// The page: reads the stream, draws the changes, and redraws what changes with time.
import { get, token } from './api.js';
import { news } from './ask.js';
import { $, clear, el, mark, show, write } from './dom.js';
import * as failed from './failed.js';
import { number, span } from './format.js';
import * as history from './history.js';
import { keys } from './keys.js';
import * as locks from './locks.js';
import * as once from './once.js';
import * as outbox from './outbox.js';
import * as queues from './queues.js';
import { sample } from './samples.js';
import { identify, settings } from './settings.js';
import { age, apply, date, forget, past, state } from './state.js';
import { listen } from './stream.js';
import { t } from './words.js';

const VIEWS = [locks, queues, failed, outbox, once, history];
const LISTS = ['locks-list', 'queues-list', 'failed-list', 'outbox-stats', 'dead-list', 'once-list', 'history-list'];

let isDue = false;

/** Draws at the next frame, once however often it is called until then. */
function due() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => { isDue = false; draw(); });
}

function draw() {
  for (const view of VIEWS) view.draw();
  tiles();
  const { connection } = state;
  $('live').dataset.state = connection;
  write($('live-text'), t(connection));
  const says = { down: t('down_says'), lost: state.problem || t('lost_says') }[connection] ?? '';
  show($('banner'), says !== '');
  if (says !== $('banner').textContent) news(says || t(connection));
  write($('banner'), says);
  failed.look();
  outbox.look();
}

/** The summary in four numbers. Those that need attention are marked. */
function tiles() {
  const all = [...state.queues.values()];
  const sum = (list, of) => list.reduce((total, one) => total + of(one), 0);
  const waiters = sum([...state.locks.values()], (lock) => lock.waiters);
  const bad = sum(all, (queue) => queue.failed);
  const ages = all.map(age).filter((ms) => ms != null);
  const { outbox: events } = state;
  const dead = events ? events.dead + events.blocked : 0;
  const keys = [...state.once.values()];
  const unknown = keys.filter((key) => key.state === 'unknown').length;
  tile('locks', locks.count(), waiters ? t('waiting', number(waiters)) : t('none_waiting'), waiters && 'busy');
  tile('queues', number(sum(all, (queue) => queue.pending)), bad ? `${number(bad)} ${t('failed')}`
    : ages.length ? `${t('oldest')} ${span(Math.max(...ages))}` : t('nothing_waits'), bad && 'bad', t('pending'));
  tile('outbox', events ? number(events.pending) : '–', dead ? `${number(dead)} ${t('dead')}`
    : events && age(events) != null ? `${t('lag')} ${span(age(events))}` : events ? t('in_time') : '', dead && 'bad', t('pending'));
  tile('once', number(keys.length - unknown), unknown ? `${number(unknown)} ${t('unknown')}` : '', unknown && 'bad', t('in_flight'));
  attention(bad, dead, unknown);
}

function tile(name, value, says, kind, unit = '') {
  const place = $(`tile-${name}`);
  place.parts ??= ['title', 'big', 'unit', 'small'].map((part) => place.appendChild(el('span', { class: part })));
  const [title, big, one, small] = place.parts;
  write(title, t(name));
  write(big, value);
  write(one, unit);
  write(small, says);
  for (const word of ['bad', 'busy']) mark(place, word, kind === word);
}

let announced = null;
let announcedAt = 0;

/** Announces to screen readers that the counts have risen, at most every ten seconds. */
function attention(...counts) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  document.title = total ? `(${total}) Turno` : 'Turno';
  if (announced != null && total > announced && Date.now() - announcedAt > 10_000) {
    news(t('attention', ...counts));
    announcedAt = Date.now();
  } else if (announced != null && total > announced) return;
  announced = total;
}

/** Requests the user's role, then reads the stream until the user signs out. */
let stop = null;
async function begin() {
  stop?.abort();
  const own = (stop = new AbortController());
  forget();
  due();
  const on = {
    event(name, data) { apply(name, data); due(); },
    state(connection, problem) {
      state.connection = connection;
      state.problem = problem?.code ? problem.message : null;
      due();
      if (connection === 'live') past().then(due, () => {});
    },
    date,
    refused(problem) { if (stop === own) refused(problem); },
  };
  try {
    state.me = await get('v1/whoami');
  } catch (error) {
    if (error.status === 401 || error.status === 403) return on.refused(error);
    // The stream retries, and shows the reason.
  }
  identify();
  if (!own.signal.aborted) listen({ ...on, state(...state) { on.state(...state); who(); } }, own.signal);
}

/** Requests the user's role if that failed before. */
async function who() {
  if (state.me) return;
  state.me = await get('v1/whoami').catch(() => null);
  identify();
  due();
}

function refused(problem) {
  const wasShown = token.get();
  token.clear();
  forget();
  state.connection = 'connecting';
  identify();
  draw();
  write($('sign-in-problem'), wasShown ? problem.message : '');
  if (!$('sign-in').open) $('sign-in').showModal();
  $('token').focus();
}

$('sign-in-form').addEventListener('submit', (event) => {
  event.preventDefault();
  token.set($('token').value.trim());
  $('token').value = '';
  $('sign-in').close();
  begin();
});
// Without a token there is nothing to see, so Escape opens the dialog again.
$('sign-in').addEventListener('close', () => {
  if (!token.get()) $('sign-in').showModal();
});
$('sign-out').addEventListener('click', () => {
  token.clear();
  begin();
});

$('search').addEventListener('input', due);
keys();

settings(() => {
  for (const list of LISTS) clear($(list));
  outbox.anew();
  locks.columns();
  draw();
});
locks.columns();
setInterval(() => { sample(state); if (!document.hidden) draw(); }, 1000);
document.addEventListener('visibilitychange', due);
get('healthz').then(({ version }) => write($('version'), t('version', version)), () => {});
begin();
