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
}

export const NO_CREDENTIAL: CredentialForm = { shown: 'no credential', scheme: { type: 'none' }, carry: () => ({}) };

const BEARER: CredentialForm = {
  shown: 'Authorization: Bearer',
  scheme: { type: 'bearer' },
  carry: (secret) => ({ headers: { authorization: `Bearer ${secret}` } }),
};

/** Names of headers and query parameters that carry a key, the usual ones first. */
const HEADERS = ['X-API-Key', 'Api-Key', 'X-Auth-Token'];
const QUERIES = ['api_key', 'key', 'access_token', 'token', 'apikey'];
const PREFIXES = ['', 'Token '];

/**
 * The forms to try, the likeliest first; only one if it is forced, or if there is a user's name. Those in the query come
 * last: see `likeliestFirst`.
 */
export function formsFor({ user }: Credential, forced: string | undefined): CredentialForm[] {
  if (forced !== undefined) return [formNamed(forced, user)].filter((form) => form !== null);
  if (user !== undefined) return [basic(user)];
  return [
    BEARER,
    ...HEADERS.slice(0, 1).map((name) => inHeader(name)),
    ...PREFIXES.map((prefix) => inHeader('Authorization', prefix)),
    ...HEADERS.slice(1).map((name) => inHeader(name)),
    ...QUERIES.map(inQuery),
  ];
}

/** `bearer`, `basic`, `header:X-Api-Key` or `query:key`; null for anything else. */
export function formNamed(name: string, user: string | undefined): CredentialForm | null {
  const [kind, ...rest] = name.split(':');
  const at = rest.join(':');
  if (name === 'bearer') return BEARER;
  if (name === 'basic') return user === undefined ? null : basic(user);
  if (kind === 'header' && /^[!#$%&'*+.^_`|~\w-]+$/.test(at)) return inHeader(at);
  return kind === 'query' && at !== '' ? inQuery(at) : null;
}

/**
 * The forms in their order, but first those that a refusal names. Servers log addresses, so a key is only sent in the query
 * where the refusal names the parameter, or the user does.
 */
export function likeliestFirst(forms: readonly CredentialForm[], said: string): CredentialForm[] {
  const text = said.toLowerCase();
  const isNamed = ({ scheme }: CredentialForm): boolean =>
    scheme['name'] === undefined
      ? text.includes(scheme['type'] ?? '')
      : namePattern(scheme['name'], scheme['in'] === 'query').test(text) && scheme['name'] !== 'Authorization';
  const isSent = ({ scheme }: CredentialForm): boolean => scheme['in'] !== 'query' || forms.length === 1;
  return [...forms.filter(isNamed), ...forms.filter((form) => !isNamed(form) && isSent(form))];
}

/** A short name such as `key` is a word of many sentences: it counts in quotes only, as do all names of parameters. */
function namePattern(name: string, isParameter: boolean): RegExp {
  const lower = name.toLowerCase().replaceAll(/[-_]/g, '[-_ ]?');
  return name.length > 5 && !isParameter ? new RegExp(lower) : new RegExp(`["'\`?&]${lower}["'\`=]`);
}

function basic(user: string): CredentialForm {
  return {
    shown: 'Authorization: Basic',
    scheme: { type: 'basic' },
    carry: (secret) => ({
      headers: { authorization: `Basic ${Buffer.from(`${user}:${secret}`).toString('base64')}` },
    }),
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

/** The secrets of a source for a scheme that `probe` has found; `secret` may as well be the name of a variable, `${NAME}`. */
export function authSettings(scheme: Readonly<Record<string, string>>, { secret, user = '' }: Credential): object {
  const secrets: Readonly<Record<string, object>> = {
    bearer: { token: secret },
    basic: { username: user, password: secret },
    api_key: { key: secret },
  };
  return { type: scheme['type'] ?? 'none', ...secrets[scheme['type'] ?? ''] };
}

/** A credential of the same form with nothing of its text. */
export function falseSecret(secret: string): string {
  const masked = secret.replaceAll(/[a-z]/gi, 'x').replaceAll(/\d/g, '0');
  return masked === secret ? `${secret.slice(0, -1)}y` : masked;
}
