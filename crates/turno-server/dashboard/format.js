// Numbers, times and texts in readable form.
import { language, t } from './words.js';

const cache = new Map();
function intl(kind, options) {
  const name = `${language()} ${kind.name} ${JSON.stringify(options)}`;
  if (!cache.has(name)) cache.set(name, new kind(language(), options));
  return cache.get(name);
}

export const number = (value) => intl(Intl.NumberFormat, {}).format(value);

/** A rate; values below 10 with one decimal. */
export function rate(value) {
  const maximumFractionDigits = value > 0 && value < 10 ? 1 : 0;
  return intl(Intl.NumberFormat, { maximumFractionDigits }).format(value);
}

const UNITS = [['d', 86_400], ['h', 3600], ['min', 60], ['s', 1]];

/** A duration in its two largest units: 4 min 45 s. */
export function span(ms) {
  if (ms < 950 && ms > 0) return `${intl(Intl.NumberFormat, { maximumFractionDigits: 1 }).format(Math.max(ms / 1000, 0.1))} s`;
  let seconds = Math.max(Math.round(ms / 1000), 0);
  const said = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(seconds / size);
    seconds -= count * size;
    if (count || (unit === 's' && !said.length)) said.push(`${count} ${unit}`);
    else if (said.length) break;
    if (said.length === 2) break;
  }
  return said.join(' ');
}

/** The time of day, with the date if it is not today. */
export function clock(text) {
  const at = new Date(text);
  const isToday = at.toDateString() === new Date().toDateString();
  const time = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' };
  return intl(Intl.DateTimeFormat, isToday ? time : { day: '2-digit', month: 'short', ...time }).format(at);
}

/** JSON, indented. */
export const json = (value) => JSON.stringify(value, null, 2) ?? '';

/** The user and service of a holder, or else its owner. */
export function person(one) {
  const who = [one.user && t('user', one.user), one.service].filter(Boolean).join(' · ');
  return who || one.owner || t('unnamed');
}

/** Host and process id. */
export const machine = (one) => [one.host, one.pid != null && `pid ${one.pid}`].filter(Boolean).join(' ');
