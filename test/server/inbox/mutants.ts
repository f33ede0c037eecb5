import { hasToken } from '../../../src/config/profile/signature-scheme.ts';
import { keyBytes } from '../../../src/config/profile/signature-secret.ts';
import type { Example } from './vectors.ts';

/** An example that somebody changed on its way, so that it must be refused. */
export interface Mutant {
  what: string;
  example: Example;
}

type Headers = Example['delivery']['headers'];

/** Every systematic change of an example that changes what it says or how it is proved. */
export function mutantsOf(example: Example): Mutant[] {
  const { headers, body } = example.delivery;
  const withHeaders = (changes: Readonly<Record<string, Headers>>): Mutant[] =>
    Object.entries(changes).map(([what, changed]) => mutant(example, what, { headers: { ...headers, ...changed } }));
  const ofBody = example.scheme.signed.length === 0 ? {} : changedBodies(body);
  const made = [
    ...Object.entries(ofBody).map(([what, changed]) => mutant(example, `body: ${what}`, { body: changed })),
    ...withHeaders(changedSignatures(example)),
    ...withHeaders(changedTimes(example)),
    ...withHeaders(changedIds(example)),
    ...otherClocks(example),
    ...otherSecrets(example),
  ];
  const before = JSON.stringify(example);
  return made.filter((one) => JSON.stringify(one.example) !== before);
}

/** Every single byte is changed in `verify-content.test.ts`. */
function changedBodies(body: Buffer): Record<string, Buffer> {
  return {
    'a blank after it': Buffer.concat([body, Buffer.from(' ')]),
    'a byte order mark before it': Buffer.concat([Buffer.from('\uFEFF'), body]),
    'the first byte gone': body.subarray(1),
    'nothing left': Buffer.alloc(0),
    'another encoding': Buffer.from(body.toString(), 'utf16le'),
  };
}

function changedSignatures(example: Example): Record<string, Headers> {
  const name = firstPresent(example, example.scheme.value.from.name);
  const value = headerText(example, name);
  // The signature within its header, or the secret that is sent along.
  const text = (/[0-9a-f]{40,}/.exec(value) ?? /[A-Za-z0-9+/_-]{27,}={0,2}/.exec(value))?.[0] ?? '';
  const bytes = Buffer.from(text, /^[0-9a-f]+$/.test(text) ? 'hex' : 'base64');
  const wrong = value.replace(text, (found) => otherLetter(found, 3));
  const signatures: Record<string, string> = {
    'cut by one': text.slice(0, -1),
    'nothing of it': '',
    'a digit more': `${text}0`,
    'junk behind': `${text}!!!!`,
    'padding added': `${text}=`,
    'padding dropped': text.replace(/=+$/, ''),
    'upper case': text.toUpperCase(),
    'base64url for base64': text.replaceAll('+', '-').replaceAll('/', '_'),
    'base64 for base64url': text.replaceAll('-', '+').replaceAll('_', '/'),
    'hex for base64': bytes.toString('hex'),
    'base64 for hex': bytes.toString('base64'),
    'the last letter changed': otherLetter(text, text.replace(/=+$/, '').length - 1),
    'bits that belong to no byte': looseBits(text),
    'as often as it fits': text.repeat(3),
    'percent-encoded': `%${text.charCodeAt(0).toString(16)}${text.slice(1)}`,
    'a line break in it': `${text.slice(0, 8)}\n${text.slice(8)}`,
    'a NUL behind': `${text}\0`,
    'a letter of another script': text.replace(/[a-z0-9]/i, 'а'),
    'a letter that is the same in its low byte': text.replace(/[a-z0-9]/i, (c) =>
      String.fromCharCode(c.charCodeAt(0) + 256),
    ),
  };
  const headers: Record<string, string | string[] | undefined> = {
    missing: undefined,
    empty: '',
    'sent twice': [value, value],
    'sent twice, the first one wrong': [wrong, value],
    'a thousand times in one': Array.from({ length: 1_000 }, () => value).join(', '),
    'with a comma in front': `,${value}`,
    'with another prefix': `x${value}`,
    'with a version of another': value.replace(/v[01]a?(?=[,=])/, 'v9').replace(/sha(1|256)=/, 'sha512='),
    'without what stands before the signature': text === value ? '' : text,
  };
  return {
    ...mapped('signature', signatures, (now) => ({ [name]: value.replace(text, () => now) })),
    ...mapped('header', headers, (now) => ({ [name]: now })),
    'header: by another name': { [name]: undefined, 'x-elsewhere': value },
  };
}

function changedTimes(example: Example): Record<string, Headers> {
  const { timestamp, value } = example.scheme;
  if (timestamp === null) return {};
  const isPart = timestamp.from.from === 'part';
  const name = firstPresent(example, isPart ? value.from.name : timestamp.from.name);
  const header = headerText(example, name);
  const text = /\d{10,13}/.exec(isPart ? header.replace(/.*\bt=/, '') : header)?.[0] ?? '';
  const written = {
    'one later': String(Number(text) + 1),
    'with a fraction': `${text}.0`,
    negative: `-${text}`,
    gone: '',
    'with a leading zero': `0${text}`,
    'in another unit': text.length > 10 ? text.slice(0, 10) : `${text}000`,
  };
  return {
    ...mapped('timestamp', written, (now) => ({ [name]: header.replace(text, () => now) })),
    'timestamp: sent twice': { [name]: isPart ? `t=${text},${header}` : [text, text] },
  };
}

function changedIds(example: Example): Record<string, Headers> {
  const { id, signed } = example.scheme;
  if (!hasToken(signed, 'id')) return {};
  const name = firstPresent(example, id.name);
  const text = headerText(example, name);
  const changed = { changed: `${text}x`, missing: undefined, 'sent twice': [text, text], 'with a dot': `${text}.1` };
  return mapped('id', changed, (now) => ({ [name]: now }));
}

function otherClocks(example: Example): Mutant[] {
  const { timestamp } = example.scheme;
  if (timestamp === null) return [];
  const nows = [example.now + timestamp.past + 2_000, example.now - timestamp.future - 2_000];
  return nows.map((now) => ({ what: `clock: ${now}`, example: { ...example, now } }));
}

function otherSecrets(example: Example): Mutant[] {
  const [secret] = example.secrets;
  if (secret === undefined) return [];
  const { value } = secret;
  const others = {
    'another one': { ...secret, value: value.startsWith('wh') ? otherLetter(value, 20) : otherLetter(value, 2) },
    'a longer one': { ...secret, value: value.startsWith('wh') ? `${value.replace(/=+$/, '')}BBBB` : `${value}0` },
    'one that is over': { ...secret, until: example.now - 1 },
  };
  return Object.entries(others)
    .filter(([, other]) => example.scheme.methods.some((method) => keyBytes(method, other) !== null))
    .map(([what, other]) => ({ what: `secret: ${what}`, example: { ...example, secrets: [other] } }));
}

function mapped<T>(
  of: string,
  changed: Readonly<Record<string, T>>,
  make: (now: T) => Headers,
): Record<string, Headers> {
  return Object.fromEntries(Object.entries(changed).map(([what, now]) => [`${of}: ${what}`, make(now)]));
}

function mutant(example: Example, what: string, change: Partial<Example['delivery']>): Mutant {
  return { what, example: { ...example, delivery: { ...example.delivery, ...change } } };
}

/** The header of this name in the family that was sent. */
function firstPresent({ scheme, delivery }: Example, name: string): string {
  const names = scheme.families.map((family) => name.replaceAll('{family}', family));
  return names.find((one) => delivery.headers[one] !== undefined) ?? '';
}

function headerText({ delivery }: Example, name: string): string {
  const value = delivery.headers[name];
  return typeof value === 'string' ? value : '';
}

function otherLetter(text: string, at: number): string {
  return text.slice(0, at) + (text[at] === '7' ? '3' : '7') + text.slice(at + 1);
}

const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** Another text that Node's decoder reads as the same bytes. */
function looseBits(text: string): string {
  const at = text.replace(/=+$/, '').length - 1;
  const digit = BASE64.indexOf(text[at] ?? '');
  return text.slice(0, at) + (BASE64[digit ^ 1] ?? '') + text.slice(at + 1);
}
