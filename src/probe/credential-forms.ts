// The forms in which a credential may be sent, such as `Authorization: Bearer` or `?api_key=`, for `probe` to try.
import { KEY_HEADERS, KEY_QUERIES } from './vocabulary.ts';

/** A way of sending one secret: how a request carries it, and how a profile says so. */
export interface CredentialForm {
  /** As evidence names it: `Authorization: Bearer`. */
  shown: string;
  /** The scheme, as `auth` of a profile says it. */
  scheme: Readonly<Record<string, string>>;
  /** The part of a request that carries the credential. */
  carry(credential: string): { headers?: Record<string, string>; query?: Record<string, string> };
}

/** The secret from the environment, and the user's name if there is one. */
export interface Credential {
  secret: string;
  user?: string | undefined;
  /** Headers that the user named, with their secrets: then nothing else is tried. */
  headers?: Readonly<Record<string, string>> | undefined;
}

export const NO_CREDENTIAL: CredentialForm = { shown: 'no credential', scheme: { type: 'none' }, carry: () => ({}) };

const BEARER: CredentialForm = {
  shown: 'Authorization: Bearer',
  scheme: { type: 'bearer' },
  carry: (secret) => ({ headers: { authorization: `Bearer ${secret}` } }),
};

/** The forms to try, the likeliest first; only one if it is forced, or if there are named headers or a user name. */
export function formsFor({ user, headers }: Credential, forced: string | undefined): CredentialForm[] {
  if (headers !== undefined) return [inHeaders(Object.keys(headers), headers)];
  if (forced !== undefined) return [parseForm(forced, user)].filter((form) => form !== null);
  if (user !== undefined) return [basic(user)];
  return [BEARER, ...KEY_HEADERS.map(parseHeader), ...KEY_QUERIES.map(inQuery)];
}

/** `Authorization Token`: the name of a header, and what stands before the key. */
function parseHeader(line: string): CredentialForm {
  const [name = '', prefix] = line.split(' ');
  return inHeader(name, prefix === undefined ? '' : `${prefix} `);
}

/** `bearer`, `basic`, `header:X-Api-Key` or `query:key`; null for anything else. */
export function parseForm(text: string, user: string | undefined): CredentialForm | null {
  const [kind, ...rest] = text.split(':');
  const name = rest.join(':');
  if (text === 'bearer') return BEARER;
  if (text === 'basic') return user === undefined ? null : basic(user);
  if (kind === 'header' && /^[!#$%&'*+.^_`|~\w-]+$/.test(name)) return inHeader(name);
  return kind === 'query' && name !== '' ? inQuery(name) : null;
}

/**
 * The forms in their order, but first those that a refusal names: a header, a parameter, or the scheme of
 * `WWW-Authenticate`. Servers log addresses, so a key is sent in the query only after all headers were refused.
 */
export function likeliestFirst(
  forms: readonly CredentialForm[],
  { scheme, text }: { scheme: string; text: string },
): CredentialForm[] {
  if (forms.length === 1) return [...forms];
  const words = [...text.matchAll(/authorization:?\s*["'`]?([a-z][\w-]*)\s/gi), ...scheme.matchAll(/^([a-z][\w-]*)/gi)]
    .map(([, word = '']) => word)
    .filter((word) => !/^(?:bearer|basic|digest|header|is|required|missing|must|negotiate)$/i.test(word));
  const headers = namedHeaders(text + scheme).map((name) => inHeader(name));
  const queries = Array.from(text.matchAll(/[?&]([\w[\]-]+)=/g), ([, name = '']) => inQuery(name));
  const isBearer = /bearer/i.test(text + scheme);
  const named = [
    ...(isBearer ? [BEARER] : []),
    ...headers,
    ...words.map((word) => inHeader('Authorization', `${word} `)),
    ...queries,
    ...forms.filter(
      ({ scheme: { in: place, name = '' } }) => place === 'query' && new RegExp(`["'\`]${name}["'\`]`).test(text),
    ),
  ];
  return [...new Map([...named, ...forms].map((form) => [form.shown.toLowerCase(), form])).values()];
}

/** Names of headers for a credential in the text of a refusal, such as `X-Shop-Key`. */
export function namedHeaders(text: string): string[] {
  const names = text.match(/\b[a-z]+(?:-[a-z]+)+\b/gi) ?? [];
  const other = /^(?:www-authenticate|content-|cache-|set-|user-agent)/i;
  return [...new Set(names.filter((name) => /key|token|auth|secret|^x-/i.test(name) && !other.test(name)))];
}

function inHeaders(names: readonly string[], headers: Readonly<Record<string, string>>): CredentialForm {
  return {
    shown: names.join(', '),
    scheme: { type: 'headers' },
    // A false credential is wrong in all of them.
    carry: (secret) => ({
      headers: Object.fromEntries(
        names.map((name) => [name.toLowerCase(), secret === headers[names[0] ?? ''] ? (headers[name] ?? '') : secret]),
      ),
    }),
  };
}

function basic(user: string): CredentialForm {
  const encode = (secret: string): string => Buffer.from(`${user}:${secret}`).toString('base64');
  return {
    shown: 'Authorization: Basic',
    scheme: { type: 'basic' },
    carry: (secret) => ({ headers: { authorization: `Basic ${encode(secret)}` } }),
  };
}

function inHeader(name: string, prefix = ''): CredentialForm {
  return {
    shown: `${name}: ${prefix}<key>`,
    scheme: { type: 'api_key', in: 'header', name, ...(name === 'Authorization' ? { prefix: prefix.trim() } : {}) },
    carry: (secret) => ({ headers: { [name.toLowerCase()]: `${prefix}${secret}` } }),
  };
}

function inQuery(name: string): CredentialForm {
  return {
    shown: `?${name}=<key>`,
    scheme: { type: 'api_key', in: 'query', name },
    carry: (secret) => ({ query: { [name]: secret } }),
  };
}

/** A credential of the same form with nothing of its text. */
export function falseSecret(secret: string): string {
  const masked = secret.replaceAll(/[a-z]/gi, 'x').replaceAll(/\d/g, '0');
  return masked === secret ? `${secret.slice(0, -1)}y` : masked;
}
