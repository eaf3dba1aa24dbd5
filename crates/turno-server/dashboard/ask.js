// The dialog before something is done that others will feel: it says what, and asks why.
import { $, clear, el, show, write } from './dom.js';
import { state } from './state.js';
import { t } from './words.js';

const NAME = 'turno.name';
let act = null;

/** A field of the dialog: its label, and what may be in it. */
function field(name, label, attributes, hint) {
  const id = `ask-${name}`;
  const described = hint ? { 'aria-describedby': `${id}-hint` } : {};
  const { tag = 'input', value = '', ...rest } = attributes;
  const input = el(tag, { id, name, autocomplete: 'off', ...described, ...rest });
  input.value = value;
  return el('p', { class: 'field' }, el('label', { for: id }, label), input,
    hint ? el('span', { class: 'hint', id: `${id}-hint` }, hint) : null);
}

/**
 * Asks, and does it: `deed` is given the fields' values, `{reason, user}` among them, and answers what to tell then. What
 * it fails with is shown, and can be tried again.
 */
export function ask({ title, what, go, deed, more = [], kind = '' }) {
  act = deed;
  write($('ask-title'), title);
  write($('ask-what'), what);
  write($('ask-go'), go);
  $('ask-go').className = `go ${kind}`;
  write($('ask-problem'), '');
  const fields = $('ask-fields');
  clear(fields);
  fields.append(...more.map(([name, label, attributes]) => field(name, label, attributes)));
  fields.append(field('reason', t('reason'), { required: true, maxlength: 1000 }, t('reason_hint')));
  // A token has a name, which is taken. Where there are none, a person says theirs.
  if (state.me?.name === 'anonymous') fields.append(field('user', t('your_name'), { maxlength: 255, value: localStorage.getItem(NAME) ?? '' }));
  $('ask').showModal();
  (fields.querySelector('input, textarea') ?? $('ask-go')).focus();
}

export function news(text) {
  write($('news'), text);
}

// What it was opened from may be gone by now: a keyboard must not start over.
$('ask').addEventListener('close', () => {
  if (document.activeElement === document.body) $('main').focus({ preventScroll: true });
});
$('ask-cancel').addEventListener('click', () => $('ask').close());
$('ask-form').addEventListener('submit', async (event) => {
  event.preventDefault();
  const values = Object.fromEntries(new FormData(event.target));
  for (const [name, value] of Object.entries(values)) if (!value.trim()) delete values[name];
  if (values.user) localStorage.setItem(NAME, values.user);
  const { reason, user, ...rest } = values;
  $('ask-go').disabled = true;
  try {
    const said = await act(rest, { ...(reason ? { reason } : {}), ...(user ? { user } : {}) });
    $('ask').close();
    news(said);
  } catch (error) {
    write($('ask-problem'), error.message);
  } finally {
    $('ask-go').disabled = false;
  }
});

/** What a person may do, by their role; what they may not is not offered. */
export const may = (role) => {
  const order = ['read', 'operate', 'admin'];
  return order.indexOf(state.me?.role) >= order.indexOf(role);
};

/** Shows a button only to those who may press it. */
export function offered(element, role, isThere = true) {
  show(element, isThere && may(role));
  return element;
}
