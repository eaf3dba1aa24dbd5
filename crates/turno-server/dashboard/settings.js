// The user's settings: language and theme. Also shows the user's name and role.
import { token } from './api.js';
import { $, write, show } from './dom.js';
import { choose, other, t, translate } from './words.js';
import { state } from './state.js';

const THEME = 'turno.theme';
const THEMES = ['auto', 'light', 'dark'];

const theme = () => (THEMES.includes(localStorage.getItem(THEME)) ? localStorage.getItem(THEME) : 'auto');

function dress() {
  const chosen = theme();
  if (chosen === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  write($('theme'), t(`theme_${chosen}`));
  $('theme').setAttribute('aria-label', `${t('theme')}: ${t(`theme_${chosen}`)}`);
}

/** Writes all texts in the chosen language. */
export function speak() {
  translate();
  dress();
  write($('language'), t('other_language'));
  $('language').lang = other();
  identify();
}

/** Shows the user's name, role and prefix. */
export function identify() {
  const { me } = state;
  const isOpen = me && !token.get();
  write($('who'), !me ? '' : isOpen ? t('open_server') : [me.name, t(`role_${me.role}`), me.prefix && t('scope', me.prefix)].filter(Boolean).join(' · '));
  show($('sign-out'), Boolean(token.get()));
  // A link cannot send a token, so it is shown only if none is needed.
  show($('metrics'), Boolean(isOpen));
}

export function settings(anew) {
  $('theme').addEventListener('click', () => {
    localStorage.setItem(THEME, THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length]);
    dress();
  });
  $('language').addEventListener('click', () => {
    choose(other());
    speak();
    anew();
  });
  speak();
}
