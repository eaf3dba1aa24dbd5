// DOM helpers. Names and payloads are untrusted: they are only ever inserted as text.
export const $ = (id) => document.getElementById(id);

/** Creates an element with attributes and children (elements or texts). */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'on') for (const [event, heard] of Object.entries(value)) element.addEventListener(event, heard);
    else if (value === true) element.setAttribute(name, '');
    else if (value != null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** Sets a text if it has changed: an unchanged text keeps its selection, and screen readers do not read it again. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element, isShown) {
  if (element.hidden === isShown) element.hidden = !isShown;
}

export const mark = (element, name, isSo) => element.classList.toggle(name, Boolean(isSo));

/** A value with its label. The label is visible where there are no columns, and always there for screen readers. */
export function part(name, label, ...children) {
  const value = el('span', { class: 'value' }, ...children);
  const whole = el('span', { class: `part ${name}` }, el('span', { class: 'label' }, label, ' '), value);
  return Object.assign(whole, { value });
}

/** A button, and the key that presses it while its row is selected. */
export const button = (text, act, key, kind = '') =>
  el('button', { type: 'button', class: `act ${kind}`, 'data-key': key, 'aria-keyshortcuts': key, on: { click: act } }, text);

/**
 * Updates the rows of a list, each identified by its key and selectable. An existing row stays in place and keeps the focus.
 * `make(thing)` returns an element with a method `update(thing)`.
 */
export function rows(parent, things, key, make) {
  const known = (parent.known ??= new Map());
  const wanted = new Set(things.map(key));
  for (const [name, row] of known) {
    if (wanted.has(name)) continue;
    if (row.contains(document.activeElement)) leave(row);
    row.remove();
    known.delete(name);
  }
  let place = parent.firstElementChild;
  for (const thing of things) {
    let row = known.get(key(thing));
    if (!row) {
      known.set(key(thing), (row = make(thing)));
      row.tabIndex = -1;
    }
    row.update(thing);
    if (row === place) place = place.nextElementSibling;
    else parent.insertBefore(row, place);
  }
}

/** Removes all children and rows, for example when the language changes. */
export function clear(parent) {
  parent.known?.clear();
  parent.replaceChildren();
}

/** Moves the focus away from a row that is removed: to the next row, or to the heading. A keyboard user does not start over. */
function leave(row) {
  const next = row.nextElementSibling ?? row.previousElementSibling;
  if (row === document.activeElement && next) return next.focus({ preventScroll: true });
  const heading = row.closest('section')?.querySelector('h2');
  heading?.setAttribute('tabindex', '-1');
  heading?.focus({ preventScroll: true });
}
