// The forms in which a credential may be sent, such as `Authorization: Bearer` or `?api_key=`, for `probe` to try.

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

/** Names of headers and query parameters that carry a key, the usual ones first. */
const HEADERS = ['X-API-Key', 'Authorization', 'Api-Key', 'X-Auth-Token'];
const QUERIES = ['api_key', 'key', 'access_token', 'token', 'apikey'];

export const NO_CREDENTIAL: CredentialForm = { shown: 'no credential', scheme: { type: 'none' }, carry: () => ({}) };

const BEARER: CredentialForm = {
  shown: 'Authorization: Bearer',
  scheme: { type: 'bearer' },
  carry: (secret) => ({ headers: { authorization: `Bearer ${secret}` } }),
};

/** The forms to try, the likeliest first; only one if it is forced, or if there is a user name. */
export function formsFor({ user }: Credential, forced: string | undefined): CredentialForm[] {
  if (forced !== undefined) return [parseForm(forced, user)].filter((form) => form !== null);
  if (user !== undefined) return [basic(user)];
  const inHeaders = HEADERS.flatMap((name) =>
    (name === 'Authorization' ? ['', 'Token '] : ['']).map((prefix) => inHeader(name, prefix)),
  );
  return [BEARER, ...inHeaders, ...QUERIES.map(inQuery)];
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
 * The forms in their order, but first those that a refusal names. Servers log addresses, so a key is sent in the query
 * only if the refusal names the parameter, or the user does.
 */
export function likeliestFirst(forms: readonly CredentialForm[], refusal: string): CredentialForm[] {
  const text = refusal.toLowerCase();
  const isNamed = ({ scheme }: CredentialForm): boolean => {
    const { name, type = '', in: place } = scheme;
    if (name === undefined) return text.includes(type);
    const pattern = name.toLowerCase().replaceAll(/[-_]/g, '[-_ ]?');
    // A short name such as `key` is a word of many sentences: it counts in quotes only, as do names of parameters.
    const isPlain = name.length > 5 && place !== 'query';
    return name !== 'Authorization' && new RegExp(isPlain ? pattern : `["'\`?&]${pattern}["'\`=]`).test(text);
  };
  const isSent = ({ scheme }: CredentialForm): boolean => scheme['in'] !== 'query' || forms.length === 1;
  return [...forms.filter(isNamed), ...forms.filter((form) => !isNamed(form) && isSent(form))];
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
