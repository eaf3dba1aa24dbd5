// The dialog before an action that affects others: it says what happens, and asks for the reason.
import { $, clear, el, show, write } from './dom.js';
import { state } from './state.js';
import { t } from './words.js';

const NAME = 'turno.name';
let act = null;

/** A field of the dialog: label, and attributes of its input. */
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
 * Opens the dialog and runs the action: `action` gets the values of the fields, among them `{reason, user}`, and returns the text to
 * show. If it fails, the error is shown and the user can try again.
 */
export function ask({ title, what, go, action, more = [], kind = '' }) {
  act = action;
  write($('ask-title'), title);
  write($('ask-what'), what);
  write($('ask-go'), go);
  $('ask-go').className = `go ${kind}`;
  write($('ask-problem'), '');
  const fields = $('ask-fields');
  clear(fields);
  fields.append(...more.map(([name, label, attributes]) => field(name, label, attributes)));
  fields.append(field('reason', t('reason'), { required: true, maxlength: 1000 }, t('reason_hint')));
  // The name of an access token is the user. Without tokens, the user enters a name.
  if (state.me?.name === 'anonymous') fields.append(field('user', t('your_name'), { maxlength: 255, value: localStorage.getItem(NAME) ?? '' }));
  $('ask').showModal();
  (fields.querySelector('input, textarea') ?? $('ask-go')).focus();
}

export function news(text) {
  write($('news'), text);
}

// The element that opened the dialog may be gone by now. Move the focus, so that keyboard users do not start at the top.
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

/** Whether the user's role permits an action. Actions that it does not permit are not shown. */
export const may = (role) => {
  const order = ['read', 'operate', 'admin'];
  return order.indexOf(state.me?.role) >= order.indexOf(role);
};

/** Shows an element only to users whose role permits it. */
export function offered(element, role, isThere = true) {
  show(element, isThere && may(role));
  return element;
}
