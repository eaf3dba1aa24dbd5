// The page's elements. Names and payloads are strangers' text: they become text and nothing else.
export const $ = (id) => document.getElementById(id);

/** An element with attributes and children: elements, or texts. */
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

/** Writes a text, unless it is there: what does not change keeps its selection, and is not read out again. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element, isShown) {
  if (element.hidden === isShown) element.hidden = !isShown;
}

export const mark = (element, name, isSo) => element.classList.toggle(name, Boolean(isSo));

/** A value with its name, which is seen where there are no columns, and always heard. */
export function part(name, label, ...children) {
  const value = el('span', { class: 'value' }, ...children);
  const whole = el('span', { class: `part ${name}` }, el('span', { class: 'label' }, label, ' '), value);
  return Object.assign(whole, { value });
}

/** A button, and the key that presses it where its row is selected. */
export const button = (text, act, key, kind = '') =>
  el('button', { type: 'button', class: `act ${kind}`, 'data-key': key, 'aria-keyshortcuts': key, on: { click: act } }, text);

/**
 * Rows for things, each known by its key, which can be selected. A row that is there stays where it is, so that it keeps the focus. `make(thing)`
 * answers an element with a method `update(thing)`.
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

/** Begins anew, in another language. */
export function clear(parent) {
  parent.known?.clear();
  parent.replaceChildren();
}

/** Where the focus goes when what had it is gone, so that a keyboard does not start over: to the next row, or to the heading. */
function leave(row) {
  const next = row.nextElementSibling ?? row.previousElementSibling;
  if (row === document.activeElement && next) return next.focus({ preventScroll: true });
  const heading = row.closest('section')?.querySelector('h2');
  heading?.setAttribute('tabindex', '-1');
  heading?.focus({ preventScroll: true });
}
