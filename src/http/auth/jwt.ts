// Creates JSON Web Tokens, signed with the key of the settings: as the credential of a source (`jwtCredentials`), and
// as the assertion with which OAuth requests a token (`jwtMint`).
import { createHmac, createPrivateKey, type KeyObject, sign as signWith } from 'node:crypto';
import type { SchemeOf, SchemeWithSecrets } from '../../config/profile/auth.ts';
import { fillTemplate, type TemplateValues } from '../../config/profile/basic-fields.ts';
import type { Clock } from '../../model/clock.ts';
import { ConfigError, messageOf } from '../../model/errors.ts';
import { type Credentials, type KeepSecret, tokenCredentials } from './credentials.ts';

/** A JWT is used for this fraction of its life, because clocks differ. */
const USED_FRACTION = 0.8;

/** Creates a credential that is a JWT signed with the key of the settings. Throws `ConfigError` for an unusable key. */
export function jwtCredentials(
  { scheme, secrets }: SchemeWithSecrets<'jwt'>,
  clock: Clock,
  keepSecret: KeepSecret,
): Credentials {
  const { id, secret } =
    scheme.key_format === 'id:secret' ? splitKey(secrets.key) : { id: secrets.key_id, secret: secrets.key };
  const values = { key_id: id, username: secrets.username };
  const mint = jwtMint(scheme, secret, values);
  keepSecret(secret);
  const expiresIn = (scheme.lifetime * USED_FRACTION) / 1_000;
  const request = async () => ({ value: mint(clock.now()), expiresIn });
  return tokenCredentials({ clock, carrier: scheme, request, keepSecret });
}

/** The fields of an auth scheme that describe a JWT. */
type JwtFields = Pick<SchemeOf<'jwt'>, 'algorithm' | 'key_encoding' | 'header' | 'claims' | 'lifetime'>;

/**
 * Returns a function that creates a JWT (RFC 7519) for a time in epoch milliseconds. `values` replace the variables in
 * header and claims; an entry whose variable has no value is omitted. Throws `ConfigError` (`settings_invalid`).
 */
export function jwtMint(fields: JwtFields, key: string, values: TemplateValues): (now: number) => string {
  const sign = createSigner(fields, key);
  const header = { alg: fields.algorithm, typ: 'JWT', ...fillEntries(fields.header, values) };
  const claims = fillEntries(fields.claims, values);
  return (now) => {
    const iat = Math.floor(now / 1_000);
    const text = [header, { iat, exp: iat + Math.ceil(fields.lifetime / 1_000), ...claims }].map(encode).join('.');
    return `${text}.${sign(text).toString('base64url')}`;
  };
}

function encode(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url');
}

function fillEntries(entries: JwtFields['claims'], values: TemplateValues): Record<string, string | number | boolean> {
  const filled = Object.entries(entries).flatMap(([name, value]): [string, string | number | boolean][] => {
    const text = typeof value === 'string' ? fillTemplate(value, values, 'body') : value;
    return text === null ? [] : [[name, text]];
  });
  return Object.fromEntries(filled);
}

function createSigner({ algorithm, key_encoding }: JwtFields, key: string): (text: string) => Buffer {
  const bytes = KEY_DECODERS[key_encoding ?? (algorithm === 'HS256' ? 'utf8' : 'pem')](key);
  if (bytes === null || bytes.length === 0) throw badKey(`is not written as ${key_encoding}`);
  if (algorithm === 'HS256') return (text) => createHmac('sha256', bytes).update(text).digest();
  const privateKey = readPrivateKey(bytes);
  const keyType = { RS256: 'rsa', ES256: 'ec' }[algorithm];
  if (privateKey.asymmetricKeyType !== keyType) throw badKey(`is none for ${algorithm}`);
  // JWS concatenates the two numbers of an ECDSA signature.
  return (text) => signWith('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' });
}

const KEY_DECODERS: Readonly<Record<NonNullable<JwtFields['key_encoding']>, (text: string) => Buffer | null>> = {
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
  return new ConfigError('settings_invalid', `the key under auth ${why}`, {
    hint: 'Check key under auth in the settings, and algorithm and key_encoding under auth in the profile.',
  });
}

/** Splits `id:secret`; throws `ConfigError` for a text without a colon. */
function splitKey(text: string): { id: string; secret: string } {
  const colon = text.indexOf(':');
  if (colon > 0 && colon < text.length - 1) return { id: text.slice(0, colon), secret: text.slice(colon + 1) };
  throw badKey('is not an id and a secret with a colon between them');
}
