import { SyncError } from '../../model/errors.ts';
import type { Carrier } from '../../source/auth.ts';
import type { Proof } from './proof.ts';

/** The prefix that belongs to a header which the settings do not name. */
const USUAL_PREFIX = 'Bearer';
const USUAL_HEADER = 'authorization';

/** A credential where the profile wants it. */
export function carried(carrier: Carrier, value: string): Proof {
  const text = prefixOf(carrier) + value;
  if (carrier.in === 'query') return { headers: {}, query: { [nameOf(carrier)]: text } };
  if (carrier.in === 'cookie') return { headers: { cookie: `${nameOf(carrier)}=${text}` }, query: {} };
  return { headers: { [nameOf(carrier).toLowerCase()]: text }, query: {} };
}

/** Query parameters that belong to the credential. */
export function queryNamesOf(carrier: Carrier): string[] {
  return carrier.in === 'query' ? [nameOf(carrier)] : [];
}

function nameOf({ in: place, name }: Carrier): string {
  return name ?? (place === 'cookie' ? 'session' : USUAL_HEADER);
}

/** With a blank behind a word: `Ghost` and `Token token=` are both written without one. */
function prefixOf({ in: place, name, prefix }: Carrier): string {
  const isUsual = place === 'header' && (name ?? USUAL_HEADER).toLowerCase() === USUAL_HEADER;
  return (prefix ?? (isUsual ? USUAL_PREFIX : '')).replace(/\w$/, '$& ');
}

/** What each place can hold as it is. */
const FITTING: Readonly<Record<Carrier['in'], RegExp>> = {
  header: /^[\x21-\x7e]+$/,
  cookie: /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+$/,
  query: /^\P{Cc}+$/u,
};
/** Longer ones go through no usual limit on the headers of a request. */
const LONGEST = 16_384;

/** Throws `bad_token` for a credential of the service's that cannot be sent in its place. */
export function refuseUnfit(value: string, carrier: Carrier, from: string): void {
  if (value.length <= LONGEST && FITTING[carrier.in].test(value)) return;
  const fault = value.length > LONGEST ? `is longer than ${LONGEST} characters` : `cannot stand in a ${carrier.in}`;
  throw new SyncError('bad_token', `${from} gave a token that ${fault}`, {
    recovery: 'stop',
    hint: 'Check where auth in the profile looks for the token, and where it sends it.',
  });
}
