import { hasToken } from '../../../src/config/profile/signature-scheme.ts';
import { keyBytes } from '../../../src/config/profile/signature-secret.ts';
import type { Example } from './vectors.ts';

/** An example that somebody changed on its way, so that it must be refused. */
export interface Mutant {
  what: string;
  example: Example;
}

/** Every systematic change of an example that changes what it says or how it is proved. */
export function mutantsOf(example: Example): Mutant[] {
  const made = [bodies, signatures, headers, times, ids, secrets].flatMap((make) => make(example));
  return made.filter((mutant) => !isUnchanged(mutant.example, example));
}

type Texts = Readonly<Record<string, string>>;

function bodies(example: Example): Mutant[] {
  if (example.scheme.signed.length === 0) return [];
  const { body } = example.delivery;
  const text = body.toString();
  const changed: Record<string, Buffer> = {
    'the first byte flipped': flipped(body, 0),
    'a byte in the middle flipped': flipped(body, body.length >> 1),
    'the last byte flipped': flipped(body, body.length - 1),
    'a blank after it': Buffer.concat([body, Buffer.from(' ')]),
    'a NUL after it': Buffer.concat([body, Buffer.from('\0')]),
    'a byte order mark before it': Buffer.concat([Buffer.from('\uFEFF'), body]),
    'the first byte gone': body.subarray(1),
    'nothing left': Buffer.alloc(0),
    'another encoding': Buffer.from(text, 'utf16le'),
    ...reserialised(text),
  };
  return Object.entries(changed).map(([what, bytes]) => mutant(example, `body: ${what}`, { body: bytes }));
}

function reserialised(text: string): Record<string, Buffer> {
  const parsed = jsonOf(text);
  if (typeof parsed !== 'object' || parsed === null) return {};
  return {
    'written again with indents': Buffer.from(JSON.stringify(parsed, null, 2)),
    'keys in another order': Buffer.from(JSON.stringify(Object.fromEntries(Object.entries(parsed).toReversed()))),
    'letters escaped': Buffer.from(text.replace('t', String.raw`\u0074`)),
    'a key more': Buffer.from(JSON.stringify({ ...parsed, more: 1 })),
  };
}

function signatures(example: Example): Mutant[] {
  const text = signatureText(example);
  const bytes = Buffer.from(text, /^[0-9a-f]+$/.test(text) ? 'hex' : 'base64');
  const changed: Texts = {
    'cut by one': text.slice(0, -1),
    'nothing of it': '',
    'a digit more': `${text}0`,
    'junk behind': `${text}!!!!`,
    'padding added': `${text}=`,
    'padding dropped': text.replace(/=+$/, ''),
    'upper case': text.toUpperCase(),
    'lower case': text.toLowerCase(),
    'base64url for base64': text.replaceAll('+', '-').replaceAll('/', '_'),
    'base64 for base64url': text.replaceAll('-', '+').replaceAll('_', '/'),
    'hex for base64': bytes.toString('hex'),
    'base64 for hex': bytes.toString('base64'),
    'the first letter changed': otherLetter(text, 0),
    'the last letter changed': otherLetter(text, text.replace(/=+$/, '').length - 1),
    'bits that belong to no byte': looseBits(text),
    'as often as it fits': text.repeat(3),
    'percent-encoded': `%${text.charCodeAt(0).toString(16)}${text.slice(1)}`,
    'a line break in it': `${text.slice(0, 8)}\n${text.slice(8)}`,
    'a blank in it': `${text.slice(0, 8)} ${text.slice(8)}`,
    'a NUL behind': `${text}\0`,
    'a letter of another script': text.replace(/[a-z0-9]/i, 'а'),
    'a letter that is the same in its low byte': text.replace(/[a-z0-9]/i, (c) =>
      String.fromCharCode(c.charCodeAt(0) + 256),
    ),
  };
  return Object.entries(changed).map(([what, now]) =>
    inHeader(example, `signature: ${what}`, (value) => value.replace(text, () => now)),
  );
}

function headers(example: Example): Mutant[] {
  const name = signatureHeader(example);
  const value = headerText(example, name);
  const wrong = value.replace(signatureText(example), (text) => otherLetter(text, 3));
  const joined = (count: number): string => Array.from({ length: count }, () => value).join(', ');
  const changed: Record<string, string | string[] | undefined> = {
    missing: undefined,
    empty: '',
    'sent twice': [value, value],
    'sent twice, the second one wrong': [value, wrong],
    'sent twice, the first one wrong': [wrong, value],
    'a thousand times in one': joined(1_000),
    'with a comma in front': `,${value}`,
    'with another prefix': `x${value}`,
    'with a version of another': value.replace(/v[01]a?(?=[,=])/, 'v9').replace(/sha(1|256)=/, 'sha512='),
    'without what stands before the signature': signatureText(example) === value ? '' : signatureText(example),
  };
  const mutants = Object.entries(changed).map(([what, now]) =>
    mutant(example, `header: ${what}`, { headers: { ...example.delivery.headers, [name]: now } }),
  );
  const elsewhere = { ...example.delivery.headers, [name]: undefined, 'x-elsewhere': value };
  return [...mutants, mutant(example, 'header: by another name', { headers: elsewhere })];
}

function times(example: Example): Mutant[] {
  const { timestamp } = example.scheme;
  if (timestamp === null) return [];
  const name = timestamp.from.from === 'header' ? firstPresent(example, timestamp.from.name) : signatureHeader(example);
  const header = headerText(example, name);
  const text = /\d{10,13}/.exec(timestamp.from.from === 'part' ? header.replace(/.*\bt=/, '') : header)?.[0] ?? '';
  const written: Texts = {
    'one later': String(Number(text) + 1),
    'one earlier': String(Number(text) - 1),
    'with a fraction': `${text}.0`,
    negative: `-${text}`,
    gone: '',
    'of 20 digits': text.padEnd(20, '0'),
    'with a leading zero': `0${text}`,
    'no number': 'NaN',
    'a blank before': ` ${text}`,
    'in another unit': text.length > 10 ? text.slice(0, 10) : `${text}000`,
  };
  const sent = Object.entries(written).map(([what, now]) =>
    mutant(example, `timestamp: ${what}`, {
      headers: { ...example.delivery.headers, [name]: header.replace(text, () => now) },
    }),
  );
  const late = example.now + timestamp.past + 2_000;
  const early = example.now - timestamp.future - 2_000;
  return [
    ...sent,
    ...(timestamp.from.from === 'header'
      ? [mutant(example, 'timestamp: sent twice', { headers: { ...example.delivery.headers, [name]: [text, text] } })]
      : [inHeader(example, 'timestamp: twice in the header', (value) => `t=${text},${value}`)]),
    { what: 'clock: after the tolerance', example: { ...example, now: late } },
    { what: 'clock: before the tolerance', example: { ...example, now: early } },
    { what: 'clock: a year later', example: { ...example, now: example.now + 31_536_000_000 } },
  ];
}

function ids(example: Example): Mutant[] {
  const { id, signed } = example.scheme;
  if (!hasToken(signed, 'id')) return [];
  const name = firstPresent(example, id.name);
  const text = headerText(example, name);
  const changed = {
    changed: `${text}x`,
    cut: text.slice(1),
    empty: '',
    missing: undefined,
    'sent twice': [text, text],
  };
  return Object.entries({ ...changed, 'with a dot': `${text}.1`, 'with a blank': `${text} x` }).map(([what, now]) =>
    mutant(example, `id: ${what}`, { headers: { ...example.delivery.headers, [name]: now } }),
  );
}

function secrets(example: Example): Mutant[] {
  const [secret] = example.secrets;
  if (secret === undefined) return [];
  const { value } = secret;
  const others = {
    'another one': { ...secret, value: value.startsWith('wh') ? otherLetter(value, 20) : otherLetter(value, 2) },
    'another one at its end': { ...secret, value: otherLetter(value, value.replace(/=+$/, '').length - 3) },
    'a longer one': { ...secret, value: value.startsWith('wh') ? `${value.replace(/=+$/, '')}BBBB` : `${value}0` },
    'one that is over': { ...secret, until: example.now - 1 },
  };
  return Object.entries(others)
    .filter(([, other]) => example.scheme.methods.some((method) => keyBytes(method, other) !== null))
    .map(([what, other]) => ({ what: `secret: ${what}`, example: { ...example, secrets: [other] } }));
}

function mutant(example: Example, what: string, change: Partial<Example['delivery']>): Mutant {
  return { what, example: { ...example, delivery: { ...example.delivery, ...change } } };
}

function inHeader(example: Example, what: string, change: (value: string) => string): Mutant {
  const name = signatureHeader(example);
  const value = change(headerText(example, name));
  return mutant(example, what, { headers: { ...example.delivery.headers, [name]: value } });
}

function signatureHeader(example: Example): string {
  return firstPresent(example, example.scheme.value.from.name);
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

/** The signature within its header, or the secret that is sent along. */
function signatureText(example: Example): string {
  const value = headerText(example, signatureHeader(example));
  return (/[0-9a-f]{40,}/.exec(value) ?? /[A-Za-z0-9+/_-]{27,}={0,2}/.exec(value))?.[0] ?? '';
}

function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[at] = (copy[at] ?? 0) ^ 1;
  return copy;
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

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function isUnchanged(now: Example, before: Example): boolean {
  return fingerprint(now) === fingerprint(before);
}

function fingerprint({ delivery, secrets, now, publicUrl }: Example): string {
  const { method, path, headers, body } = delivery;
  return JSON.stringify([method, path, headers, body, secrets, now, publicUrl]);
}
