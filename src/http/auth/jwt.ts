import { createHmac, createPrivateKey, sign as signWith, type KeyObject } from 'node:crypto';
import { ConfigError, messageOf } from '../../model/errors.ts';
import type { SchemeOf } from '../../source/auth.ts';
import { fillTemplate, type TemplateValues } from '../../source/basic-fields.ts';

/** How a JWT is made, as a profile has it. */
export type JwtForm = Pick<SchemeOf<'jwt'>, 'algorithm' | 'key_encoding' | 'header' | 'claims' | 'lifetime'>;

/** Makes a JWT of this moment (epoch milliseconds): RFC 7519 in the compact form of RFC 7515. */
export type MintJwt = (now: number) => string;

/**
 * `values` are those of the variables in header and claims; an entry whose variable has none is left out. Throws
 * `ConfigError` (`bad_auth_key`) for a key that cannot sign.
 */
export function jwtMint(form: JwtForm, key: string, values: TemplateValues): MintJwt {
  const sign = signer(form, key);
  const header = { alg: form.algorithm, typ: 'JWT', ...filledIn(form.header, values) };
  const claims = filledIn(form.claims, values);
  return (now) => {
    const iat = Math.floor(now / 1_000);
    const text = [header, { iat, exp: iat + Math.ceil(form.lifetime / 1_000), ...claims }].map(encoded).join('.');
    return `${text}.${sign(text).toString('base64url')}`;
  };
}

function filledIn(entries: JwtForm['claims'], values: TemplateValues): Record<string, string | number | boolean> {
  const filled = Object.entries(entries).flatMap(([name, value]): [string, string | number | boolean][] => {
    const text = typeof value === 'string' ? fillTemplate(value, values, 'body') : value;
    return text === null ? [] : [[name, text]];
  });
  return Object.fromEntries(filled);
}

function encoded(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url');
}

type Sign = (text: string) => Buffer;

function signer({ algorithm, key_encoding }: JwtForm, key: string): Sign {
  const bytes = KEY_BYTES[key_encoding ?? (algorithm === 'HS256' ? 'utf8' : 'pem')](key);
  if (bytes === null || bytes.length === 0) throw badKey(`is not written as ${key_encoding}`);
  if (algorithm === 'HS256') return (text) => createHmac('sha256', bytes).update(text).digest();
  const privateKey = readPrivateKey(bytes);
  const wanted = { RS256: 'rsa', ES256: 'ec' }[algorithm];
  if (privateKey.asymmetricKeyType !== wanted) throw badKey(`is none for ${algorithm}`);
  // JWS has the two numbers of an ECDSA signature side by side.
  return (text) => signWith('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' });
}

const KEY_BYTES: Readonly<Record<NonNullable<JwtForm['key_encoding']>, (text: string) => Buffer | null>> = {
  utf8: (text) => Buffer.from(text),
  hex: (text) => (/^(?:[0-9a-f]{2})+$/i.test(text) ? Buffer.from(text, 'hex') : null),
  base64: (text) => (/^[A-Za-z0-9+/_-]+=*$/.test(text) ? Buffer.from(text, 'base64') : null),
  // In an environment variable line breaks are often written as \n.
  pem: (text) => (text.includes('-----BEGIN ') ? Buffer.from(text.replaceAll('\\n', '\n')) : null),
};

function readPrivateKey(bytes: Buffer): KeyObject {
  try {
    const isPem = bytes.includes('-----BEGIN ');
    return createPrivateKey(isPem ? bytes.toString() : { key: bytes, format: 'der', type: 'pkcs8' });
  } catch (error) {
    throw badKey(`cannot be read (${messageOf(error).slice(0, 80)})`);
  }
}

function badKey(why: string): ConfigError {
  return new ConfigError('bad_auth_key', `the key under auth ${why}`, {
    hint: 'Check key under auth in the settings, and algorithm and key_encoding under auth in the profile.',
  });
}

/** The id and the secret of one text; throws `ConfigError` for a text without a colon. */
export function splitKey(text: string): { id: string; secret: string } {
  const colon = text.indexOf(':');
  if (colon > 0 && colon < text.length - 1) return { id: text.slice(0, colon), secret: text.slice(colon + 1) };
  throw badKey('is not an id and a secret with a colon between them');
}
