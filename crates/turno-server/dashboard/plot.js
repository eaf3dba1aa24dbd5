// A small line plot of the last five minutes, drawn without a library.
import { el, write } from './dom.js';
import { WINDOW } from './samples.js';

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = 150;
const HEIGHT = 28;

function svg(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** A plot with its text: `update(points, text, besides)`. A point has a time and a value. */
export function plot(kind, label) {
  const area = svg('path', { class: 'area' });
  const line = svg('path', { class: 'line' });
  const picture = svg('svg', {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', 'aria-hidden': 'true', focusable: 'false',
  });
  picture.append(area, line);
  const text = el('b');
  const beside = el('span');
  const figure = el('span', { class: `plot ${kind}` }, el('span', { class: 'says' }, label), ' ', text, ' ', beside, picture);
  figure.update = (points, says, besides = '') => {
    write(text, says);
    write(beside, besides);
    const most = Math.max(...points.map(({ value }) => value), 0) || 1;
    const end = Date.now();
    const x = (at) => Math.max(WIDTH * (1 - (end - at) / WINDOW), 0).toFixed(1);
    const y = (value) => (HEIGHT - 1.5 - (value / most) * (HEIGHT - 4)).toFixed(1);
    const way = points.length > 1 ? `M${points.map(({ at, value }) => `${x(at)} ${y(value)}`).join('L')}` : '';
    line.setAttribute('d', way);
    area.setAttribute('d', way && `${way}L${x(points.at(-1).at)} ${HEIGHT}L${x(points[0].at)} ${HEIGHT}Z`);
  };
  return figure;
}
