// Keyboard shortcuts, the same as in `turno top`: jump to a section, move between rows, act on the selected row.
// The selected row is the one with the focus, so that screen readers know it too.
import { news } from './ask.js';
import { $, clear, el } from './dom.js';
import { t } from './words.js';

const OFF = 'turno.keys.off';
const PARTS = ['locks', 'queues', 'outbox', 'once', 'history'];
/** Letters of actions. A letter presses the button that the selected row has for it. */
const ACTIONS = ['b', 'r', 'd', 'f', 'c', 's'];
const HELP = [['1 – 5', 'key_parts'], ['j k', 'key_rows'], ['g G', 'key_ends'], ['/', 'key_search'],
  ['b', 'key_b'], ['r', 'key_r'], ['d', 'key_d'], ['f', 'key_f'], ['c', 'key_c'], ['s', 'key_s'], ['?', 'key_help']];

const isOn = () => localStorage.getItem(OFF) == null;
const selected = () => document.activeElement?.closest('li.row') ?? null;
const rowsOf = (place) => [...place.querySelectorAll('li.row')].filter((row) => row.checkVisibility());

function select(row) {
  row?.focus();
}

/** Jumps to a section: to its first row, or to its heading if it has no rows. */
function turn(name) {
  const part = $(name);
  const [first] = rowsOf(part);
  if (first) return select(first);
  const heading = part.querySelector('h2');
  heading.setAttribute('tabindex', '-1');
  heading.focus();
}

function step(by) {
  const all = rowsOf(document);
  const index = all.indexOf(selected());
  select(index < 0 ? all.at(by > 0 ? 0 : -1) : all[Math.min(Math.max(index + by, 0), all.length - 1)]);
}

function end(which) {
  select(rowsOf(selected()?.closest('section') ?? $('locks')).at(which));
}

/** Presses a button of the selected row. Hidden buttons cannot be pressed. */
function press(letter) {
  const button = selected()?.querySelector(`button[data-key="${letter}"]:not([hidden])`);
  if (button) button.click();
  else news(t('key_none', t(`key_${letter}`)));
}

const KEYS = {
  j: () => step(1), k: () => step(-1), g: () => end(0), G: () => end(-1), '/': () => $('search').focus(), '?': help,
  ...Object.fromEntries(PARTS.map((name, index) => [String(index + 1), () => turn(name)])),
  ...Object.fromEntries(ACTIONS.map((letter) => [letter, () => press(letter)])),
};

function help() {
  clear($('keys-list'));
  for (const [key, name] of HELP) $('keys-list').append(el('dt', {}, el('kbd', {}, key)), el('dd', {}, t(name)));
  $('keys-on').checked = isOn();
  $('keys').showModal();
}

/** Speech input types letters by accident, so the shortcuts can be turned off. A button opens this dialog without them. */
export function keys() {
  $('keys-open').addEventListener('click', help);
  $('keys-close').addEventListener('click', () => $('keys').close());
  $('keys-on').addEventListener('change', () => ($('keys-on').checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, '')));
  document.addEventListener('keydown', (event) => {
    const isOther = event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, textarea, dialog');
    if (isOther || !isOn() || !Object.hasOwn(KEYS, event.key)) return;
    event.preventDefault();
    KEYS[event.key]();
  });
}
