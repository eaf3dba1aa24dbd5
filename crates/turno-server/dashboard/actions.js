// Operator actions: one call each. `why` has the user and the reason, which are recorded in the history.
import { ask, digits, path } from './api.js';

const query = (values) => `?${new URLSearchParams(values)}`;

export const breakLock = (lock, why) => ask('DELETE', path('v1/locks', lock.resource, query({ token: digits(lock.token), ...why })));

export const requeueItems = (queue, ids, why) => ask('POST', path('v1/inbox', queue, '/requeue'), { ids, ...why });

export const discardItems = (queue, ids, why) => ask('POST', path('v1/inbox', queue, '/discard'), { ids, ...why });

export const resetItems = (queue, olderThan, why) => ask('POST', path('v1/inbox', queue, '/reset'), { older_than: olderThan, ...why });

export const requeueEvents = (ids, why) => ask('POST', 'v1/outbox/requeue', { ids, ...why });

export const discardEvents = (ids, why) => ask('POST', 'v1/outbox/discard', { ids, ...why });

export const forgetKey = (key, why) => ask('DELETE', path('v1/once-keys', key, query(why)));

/** `answer` is `{ answer }`, or empty: an answer may itself be null. */
export const resolveKey = (key, answer, why) => ask('PUT', path('v1/once-keys', key), { ...answer, ...why });
