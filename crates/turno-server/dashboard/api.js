// Requests to the server, with the access token if there is one. The token is kept in this tab's session storage. It is never in
// a URL, which others can see, and never in a cookie, which a browser also sends for requests of other sites.
import { language, t } from './words.js';

const KEY = 'turno.token';

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  clear: () => sessionStorage.removeItem(KEY),
};

/** An error response of the server: RFC 9457. */
export class Problem extends Error {
  constructor(status, problem) {
    super([problem?.detail || t('no_answer'), problem?.reason].filter(Boolean).join(' '));
    this.status = status;
    this.code = problem?.code;
  }
}

export function headers() {
  const shown = token.get();
  return { 'accept-language': language(), ...(shown ? { authorization: `Bearer ${shown}` } : {}) };
}

/** A path with a name as one percent-encoded segment. */
export function path(start, name, rest = '') {
  // URL parsers treat these as "this directory" and "parent directory" even if they are percent-encoded.
  if (name === '.' || name === '..') throw new Problem(0, { detail: t('no_url') });
  return `${start}/${encodeURIComponent(name)}${rest}`;
}

/** Reviver for JSON.parse that keeps numbers which JavaScript would round. */
function exact(_key, value, context) {
  const source = context?.source;
  const isRounded = typeof value === 'number' && source && String(value) !== source;
  return isRounded && JSON.rawJSON ? JSON.rawJSON(source) : value;
}

export const parse = (text) => JSON.parse(text, exact);

/** The digits of a number, not rounded. */
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

/** Sends a request. Throws a Problem if there is no response. */
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
