// Asking the server: with the access token, if there is one. It is kept in this tab's session storage; never in an address,
// which others see, and never in a cookie, which a browser sends along for any page that asks.
import { language, t } from './words.js';

const KEY = 'turno.token';

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  clear: () => sessionStorage.removeItem(KEY),
};

/** What went wrong, as the server says it: RFC 9457. */
export class Problem extends Error {
  constructor(status, told) {
    super([told?.detail || t('no_answer'), told?.reason].filter(Boolean).join(' '));
    this.status = status;
    this.code = told?.code;
  }
}

export function headers() {
  const shown = token.get();
  return { 'accept-language': language(), ...(shown ? { authorization: `Bearer ${shown}` } : {}) };
}

/** A path: what follows names is not read as part of them. */
export function path(start, name, rest = '') {
  // Every URL is read with these taken for "here" and "up", however they are encoded.
  if (name === '.' || name === '..') throw new Problem(0, { detail: t('no_url') });
  return `${start}/${encodeURIComponent(name)}${rest}`;
}

/** Numbers that JavaScript would round stay as they are written. */
function exact(_key, value, context) {
  const source = context?.source;
  const isRounded = typeof value === 'number' && source && String(value) !== source;
  return isRounded && JSON.rawJSON ? JSON.rawJSON(source) : value;
}

export const parse = (text) => JSON.parse(text, exact);

/** The text of a number, rounded by nobody. */
export const digits = (number) => number?.rawJSON ?? String(number);

export async function ask(method, address, body) {
  const response = await send(address, {
    method,
    headers: { ...headers(), ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw problem(response.status, text);
  return text ? parse(text) : null;
}

export const get = (address) => ask('GET', address);

/** An answer, or the news that there is none. */
export async function send(address, options) {
  try {
    return await fetch(address, { cache: 'no-store', credentials: 'omit', redirect: 'error', ...options });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, null);
  }
}

export function problem(status, text) {
  try {
    return new Problem(status, JSON.parse(text));
  } catch {
    return new Problem(status, null);
  }
}
