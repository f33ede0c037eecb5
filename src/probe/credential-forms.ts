// The forms in which a credential may be sent, for `probe` to try: `Authorization: Bearer <key>`, `X-API-Key: <key>`,
// `?api_key=<key>`, or a user name and a password.
import { HEADER_PAIRS, KEY_HEADERS, KEY_QUERIES, PRODUCT_HEADERS } from './vocabulary.ts';

/** A way of sending one secret: how a request carries it, and how a profile says so. */
export interface CredentialForm {
  /** As evidence names it: `Authorization: Bearer`. */
  shown: string;
  /** The scheme, as `auth` of a profile says it. */
  scheme: Readonly<Record<string, string>>;
  /** The secrets of the settings for it; `secret` is the text that stands for the credential there. */
  settings: (secret: string) => Record<string, unknown>;
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

export const NO_CREDENTIAL: CredentialForm = {
  shown: 'no credential',
  scheme: { type: 'none' },
  settings: () => ({}),
  carry: () => ({}),
};

const BEARER: CredentialForm = {
  shown: 'Authorization: Bearer',
  scheme: { type: 'bearer' },
  settings: (token) => ({ token }),
  carry: (secret) => ({ headers: { authorization: `Bearer ${secret}` } }),
};

/** The forms to try, the likeliest first; only one if it is forced, or if there are named headers or a user name. */
export function formsFor({ user, headers }: Credential, forced: string | undefined): CredentialForm[] {
  if (headers !== undefined) return [inHeaders(headers)];
  if (forced !== undefined) return [parseForm(forced, user)].filter((form) => form !== null);
  if (user !== undefined) {
    const pairs = HEADER_PAIRS.map((line) => line.split(' '));
    return [basic(user), ...pairs.map(([one = '', two = '']) => inHeaders({ [one]: user, [two]: null }))];
  }
  const named = KEY_HEADERS.map((line) => line.split(' '));
  return [BEARER, ...named.map(([name = '', word]) => inHeader(name, word))];
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
 * `WWW-Authenticate`. Servers log addresses, so a key is sent in the query only if the refusal names the parameter, or the
 * user does.
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
  const queries = Array.from(text.matchAll(/[?&](\w*(?:key|token|auth|secret)\w*)=/gi), ([, name = '']) =>
    inQuery(name),
  );
  const isBearer = /bearer/i.test(text + scheme);
  // The realm mostly names the product, and that the header: `X-Redmine-API-Key`.
  const [, product = ''] = /realm="?(\w+)/i.exec(scheme) ?? [];
  const ofProduct = product === '' ? [] : PRODUCT_HEADERS.map((name) => inHeader(name.replace('{product}', product)));
  const named = [
    ...(isBearer ? [BEARER] : []),
    ...(/^basic/i.test(scheme) && forms.includes(BEARER) ? [basic(), ...ofProduct] : []),
    ...headers,
    ...words.map((word) => inHeader('Authorization', word)),
    ...queries,
    ...KEY_QUERIES.filter((name) => new RegExp(`["'\`]${name}["'\`]`).test(text)).map(inQuery),
  ];
  return [...new Map([...named, ...forms].map((form) => [form.shown.toLowerCase(), form])).values()];
}

/** Names of headers for a credential in the text of a refusal, such as `X-Shop-Key`. */
export function namedHeaders(text: string): string[] {
  const names = text.match(/\b[a-z]+(?:-[a-z]+)+\b/gi) ?? [];
  const other = /^(?:www-authenticate|content-|cache-|set-|user-agent)/i;
  return [...new Set(names.filter((name) => /key|token|auth|secret|^x-/i.test(name) && !other.test(name)))];
}

/** Several headers; the value of one that is null is the credential itself. */
function inHeaders(headers: Readonly<Record<string, string | null>>): CredentialForm {
  const fill = (secret: string, isOwn: boolean): Record<string, string> =>
    Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, (isOwn ? value : null) ?? secret]));
  const values = Object.values(headers);
  return {
    shown: Object.keys(headers).join(', '),
    scheme: { type: 'headers' },
    settings: (secret) => ({ headers: fill(secret, true) }),
    // A false credential stands in all of them.
    carry: (secret) => ({ headers: fill(secret, values.includes(null) || values.includes(secret)) }),
  };
}

/** The password of a user; without one the credential is the user name, with a password that does not count. */
function basic(user?: string): CredentialForm {
  const settings = (secret: string) => ({ username: user ?? secret, password: user === undefined ? 'x' : secret });
  return {
    shown: `Authorization: Basic${user === undefined ? ', with the key as user name' : ''}`,
    scheme: { type: 'basic' },
    settings,
    carry: (secret) => {
      const { username, password } = settings(secret);
      return { headers: { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` } };
    },
  };
}

/** The key in a header, after a word: `Authorization: Token <key>`. */
function inHeader(name: string, word = ''): CredentialForm {
  const prefix = word === '' ? '' : `${word} `;
  return {
    shown: `${name}: ${prefix}<key>`,
    scheme: { type: 'api_key', in: 'header', name, ...(name === 'Authorization' ? { prefix: word } : {}) },
    settings: (key) => ({ key }),
    carry: (secret) => ({ headers: { [name.toLowerCase()]: `${prefix}${secret}` } }),
  };
}

function inQuery(name: string): CredentialForm {
  return {
    shown: `?${name}=<key>`,
    scheme: { type: 'api_key', in: 'query', name },
    settings: (key) => ({ key }),
    carry: (secret) => ({ query: { [name]: secret } }),
  };
}

/** A credential of the same form with nothing of its text. */
export function falseSecret(secret: string): string {
  const masked = secret.replaceAll(/[a-z]/gi, 'x').replaceAll(/\d/g, '0');
  return masked === secret ? `${secret.slice(0, -1)}y` : masked;
}
