// Lists: searchable, limited in length, with help while they are empty.
import { $, clear, el, rows, show, write } from './dom.js';
import { number } from './format.js';
import { state } from './state.js';
import { language, t } from './words.js';

/** Maximum number of rows that are drawn. */
const DRAWN = 100;

const sought = () => $('search').value.trim().toLocaleLowerCase();

/** Whether one of the texts contains the search text. */
export function found(...texts) {
  const text = sought();
  return !text || texts.some((one) => one != null && String(one).toLocaleLowerCase().includes(text));
}

export const isSeeking = () => sought() !== '';

/** Draws a list. `says`: note at the heading. `beyond`: the command that lists what the stream left out. */
export function list(name, { things, all, key, make, says, beyond, empty, commands }) {
  rows($(`${name}-list`), things.slice(0, DRAWN), key, make);
  const more = things.length > DRAWN ? t('more', number(things.length - DRAWN)) : '';
  write($(`${name}-note`), [says, more, beyond && t('more_beyond', beyond)].filter(Boolean).join(' · '));
  if (things.length === 0 && all > 0) teach(name, t('nothing_found', $('search').value.trim()), []);
  else teach(name, things.length === 0 && empty, commands);
}

/** Shows that a list is empty, and the commands that would fill it. */
export function teach(name, says, commands) {
  const box = $(`${name}-empty`);
  if (!box) return;
  show(box, Boolean(says) && state.connection !== 'connecting');
  const said = `${language()} ${says}`;
  if (!says || box.dataset.said === said) return;
  box.dataset.said = said;
  clear(box);
  box.append(el('p', {}, says));
  if (commands.length) box.append(el('p', { class: 'hint' }, t('try_it')), el('pre', { tabindex: 0 }, commands.join('\n')));
}

/** A text that unfolds. It keeps its state on updates. */
export function fold(label, text) {
  const pre = el('pre', { tabindex: 0 });
  const whole = el('details', {}, el('summary', {}, label), pre);
  whole.update = (value) => write(pre, value);
  whole.update(text);
  return whole;
}
