// What a person chooses for themselves: language, light or dark; and who they are.
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

/** Says everything in the chosen language. */
export function speak() {
  translate();
  dress();
  write($('language'), t('other_language'));
  $('language').lang = other();
  identify();
}

/** Who asks, and what they may. */
export function identify() {
  const { me } = state;
  const isOpen = me && !token.get();
  write($('who'), !me ? '' : isOpen ? t('open_server') : [me.name, t(`role_${me.role}`), me.prefix && t('scope', me.prefix)].filter(Boolean).join(' · '));
  show($('sign-out'), Boolean(token.get()));
  // A link shows no token.
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
