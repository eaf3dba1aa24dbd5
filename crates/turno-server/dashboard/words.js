// The texts of the page: English or Spanish, by the browser's preference or the user's choice.
import en from './en.js';
import es from './es.js';

const KEY = 'turno.language';
const SPOKEN = { en, es };

let spoken = localStorage.getItem(KEY);
if (!(spoken in SPOKEN)) {
  const wanted = navigator.languages.map((language) => language.slice(0, 2));
  spoken = wanted.find((language) => language in SPOKEN) ?? 'en';
}

export const language = () => spoken;
export const other = () => (spoken === 'en' ? 'es' : 'en');

export function choose(language) {
  spoken = language;
  localStorage.setItem(KEY, language);
}

/** A text by its name. Texts with parameters are functions. */
export function t(name, ...values) {
  const text = SPOKEN[spoken][name] ?? en[name] ?? name;
  return typeof text === 'function' ? text(...values) : text;
}

/** Translates the texts of the markup. */
export function translate() {
  document.documentElement.lang = spoken;
  for (const element of document.querySelectorAll('[data-t]')) element.textContent = t(element.dataset.t);
  for (const element of document.querySelectorAll('[data-placeholder]')) element.placeholder = t(element.dataset.placeholder);
  for (const element of document.querySelectorAll('[data-label]')) element.setAttribute('aria-label', t(element.dataset.label));
}
