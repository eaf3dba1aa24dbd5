// Client of the event stream. `EventSource` cannot send an access token, so it uses `fetch`.
import { headers, problem, send } from './api.js';

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15_000;
/** The server sends something at least every 15 s. A connection that is silent for this long (ms) is dead. */
const SILENCE = 40_000;

/**
 * Reads the stream until `stop` is aborted, and reconnects when it ends. `on.event(name, data)` gets each event,
 * `on.state('live' | 'lost', problem)` the state of the connection, `on.refused(problem)` a missing or insufficient token.
 */
export async function listen(on, stop) {
  let pause = FIRST_PAUSE;
  while (!stop.aborted) {
    let problem = null;
    try {
      const reason = await once(on, stop, () => { pause = FIRST_PAUSE; });
      // The stream has reached its maximum lifetime. Nothing was missed.
      if (reason === 'time') continue;
    } catch (error) {
      if (error.status === 401 || error.status === 403) return on.refused(error);
      problem = error;
    }
    if (stop.aborted) return;
    on.state('lost', problem);
    await rest(pause * (0.75 + Math.random() / 2), stop);
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

/** One connection, from its snapshot to its end. */
async function once(on, stop, begun) {
  const connection = new AbortController();
  const end = () => connection.abort();
  stop.addEventListener('abort', end, { once: true });
  let watch = setTimeout(end, SILENCE);
  try {
    const response = await send('v1/stream', { headers: headers(), signal: connection.signal });
    if (!response.ok) throw problem(response.status, await response.text());
    on.date(response.headers.get('date'));
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let reason = null;
    const parse = parser((name, text) => {
      const data = JSON.parse(text);
      if (name === 'snapshot') { begun(); on.state('live', null); }
      if (name === 'reconnect') reason = data.reason;
      on.event(name, data);
    });
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return reason;
      clearTimeout(watch);
      watch = setTimeout(end, SILENCE);
      parse(value);
    }
  } finally {
    clearTimeout(watch);
    stop.removeEventListener('abort', end);
    connection.abort();
  }
}

/** Parses chunks of text into events. */
export function parser(tell) {
  let rest = '', name = '', data = [];
  return (piece) => {
    const lines = (rest + piece).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line === '') {
        if (data.length) tell(name || 'message', data.join('\n'));
        name = '';
        data = [];
      } else if (line.startsWith('event: ')) name = line.slice(7);
      else if (line.startsWith('data: ')) data.push(line.slice(6));
    }
  };
}

function rest(ms, stop) {
  return new Promise((done) => {
    const timer = setTimeout(done, ms);
    stop.addEventListener('abort', () => { clearTimeout(timer); done(); }, { once: true });
  });
}
