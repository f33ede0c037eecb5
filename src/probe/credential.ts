import { type Answer, type Asker, isRefusal, isUsable, said } from './asker.ts';
import { recordArrays } from './body.ts';
import { countsIn } from './page-signs.ts';
import type { Findings } from './stage.ts';

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

/** The forms to be tried, the likeliest first; only one where it is forced, or where there is a user's name. */
export function formsFor({ user }: Credential, forced: string | undefined): CredentialForm[] {
  if (forced !== undefined) return [formNamed(forced, user)].filter((form) => form !== null);
  if (user !== undefined) return [basic(user)];
  return [
    BEARER,
    ...HEADERS.slice(0, 1).map((name) => inHeader(name)),
    ...QUERIES.slice(0, 2).map(inQuery),
    ...PREFIXES.map((prefix) => inHeader('Authorization', prefix)),
    ...QUERIES.slice(2).map(inQuery),
    ...HEADERS.slice(1).map((name) => inHeader(name)),
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

/** The forms in their order, but for those first that a refusal or a document names. */
export function likeliestFirst(forms: readonly CredentialForm[], said: string): CredentialForm[] {
  const text = said.toLowerCase();
  const isNamed = ({ scheme }: CredentialForm): boolean =>
    scheme['name'] === undefined
      ? text.includes(scheme['type'] ?? '')
      : namePattern(scheme['name']).test(text) && scheme['name'] !== 'Authorization';
  return [...forms.filter(isNamed), ...forms.filter((form) => !isNamed(form))];
}

/** A short name such as `key` is a word of many sentences: it counts in quotes only. */
function namePattern(name: string): RegExp {
  const lower = name.toLowerCase().replaceAll(/[-_]/g, '[-_ ]?');
  return name.length > 5 ? new RegExp(lower) : new RegExp(`["'\`?&]${lower}["'\`=]`);
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

/** Paths at which services say who is asking. */
const IDENTITY_PATHS = ['/users/me', '/me', '/user', '/account', '/auth/me', '/whoami'];
/** Forms that are compared with a false credential where none of them opens anything. */
const MOST_COMPARED = 4;

interface AuthQuestion {
  asker: Asker;
  credential: Credential | null;
  forced: string | undefined;
  /** A path that may need the credential. */
  reference: string;
  findings: Findings;
}

/**
 * Finds how the service wants the credential, by what is got with the right one, without one and with a false one. From
 * here on the asker asks in that form. False if the service does not let anybody in.
 */
export async function probeAuth({ asker, credential, forced, findings, ...question }: AuthQuestion): Promise<boolean> {
  const nobody = await asker.ask({ path: question.reference, form: NO_CREDENTIAL });
  const reference = nobody.status === 0 ? question.reference : asker.pathOf(nobody);
  if (credential === null) {
    findings.proved(['auth'], NO_CREDENTIAL.scheme, `${said(nobody)}, without a credential`);
    return isUsable(nobody);
  }
  const challenge = `${String(nobody.headers['www-authenticate'] ?? '')} ${nobody.text}`;
  const forms = likeliestFirst(formsFor(credential, forced), challenge);
  const found = isUsable(nobody)
    ? ((await openingForm(asker, reference, forms.slice(0, MOST_COMPARED), nobody)) ??
      (await identifiedForm(asker, forms, findings)) ??
      (await distinguishedForm(asker, reference, forms.slice(0, MOST_COMPARED))))
    : ((await openingForm(asker, reference, forms, nobody)) ??
      (await distinguishedForm(asker, reference, forms.slice(0, MOST_COMPARED))) ??
      (await identifiedForm(asker, forms, findings)));
  if (found !== null) {
    asker.use(found.form);
    findings.proved(['auth'], found.form.scheme, found.evidence);
    await addIdentity(asker, found, findings);
    return true;
  }
  if (isUsable(nobody)) {
    const why = 'the credential, a false one and none get the same, so none is sent';
    findings.guessed(['auth'], NO_CREDENTIAL.scheme, `${said(nobody)}; ${why}`);
    return true;
  }
  const [form = NO_CREDENTIAL] = forms;
  asker.use(form);
  findings.guessed(['auth'], form.scheme, `${said(nobody)}; no form that was tried opens it`);
  return false;
}

interface FoundForm {
  form: CredentialForm;
  evidence: string;
  /** True if a false credential is answered like none instead of being refused. */
  isLenient: boolean;
}

/** The form with which more is got than without: an answer in place of a refusal, or more records. */
async function openingForm(
  asker: Asker,
  path: string,
  forms: readonly CredentialForm[],
  nobody: Answer,
): Promise<FoundForm | null> {
  for (const form of forms) {
    const own = await asker.ask({ path, form });
    if (!isUsable(own) || (isUsable(nobody) && isAlike(own, nobody))) continue;
    const stranger = await asker.ask({ path, form, isFalse: true });
    if (isUsable(stranger) && isAlike(own, stranger)) continue;
    const evidence = `${form.shown}: ${own.status} with the credential, ${stranger.status} with a false one, ${nobody.status} without`;
    return { form, evidence, isLenient: isUsable(stranger) };
  }
  return null;
}

/** True for the same records and the same counts. */
function isAlike(one: Answer, other: Answer): boolean {
  return one.status === other.status && sizeOf(one) === sizeOf(other);
}

function sizeOf(answer: Answer): string {
  const [array] = recordArrays(answer.json ?? null, '');
  const { totals } = countsIn(answer, array?.path ?? '');
  return `${array?.count ?? 0} ${Math.max(0, ...totals.map(({ value }) => value))}`;
}

/** Where the listing is public: a path that answers only who is known. */
async function identifiedForm(
  asker: Asker,
  forms: readonly CredentialForm[],
  findings: Findings,
): Promise<FoundForm | null> {
  for (const path of IDENTITY_PATHS) {
    const nobody = await asker.ask({ path, form: NO_CREDENTIAL });
    if (nobody.status !== 401 && nobody.status !== 403) continue;
    for (const form of forms) {
      const own = await asker.ask({ path, form });
      if (!isUsable(own)) continue;
      const stranger = await asker.ask({ path, form, isFalse: true });
      if (isUsable(stranger)) continue;
      const evidence = `${form.shown}: ${said(own)} with the credential, ${stranger.status} with a false one, ${nobody.status} without`;
      findings.proved(['identity'], path, evidence);
      return { form, evidence, isLenient: false };
    }
    return null;
  }
  return null;
}

/** Where even the right credential opens nothing yet: the form in which a false one is answered otherwise. */
async function distinguishedForm(
  asker: Asker,
  path: string,
  forms: readonly CredentialForm[],
): Promise<FoundForm | null> {
  for (const form of forms) {
    const own = await asker.ask({ path, form });
    if (own.status === 401 || own.status === 0) continue;
    const stranger = await asker.ask({ path, form, isFalse: true });
    if (stranger.status === own.status || !isRefusal(stranger)) continue;
    const evidence = `${form.shown}: ${own.status} with the credential, ${stranger.status} with a false one`;
    return { form, evidence, isLenient: false };
  }
  return null;
}

/** A credential that has become invalid must be noticed: where it would not be refused, an identity path tells. */
async function addIdentity(asker: Asker, { form, isLenient }: FoundForm, findings: Findings): Promise<void> {
  if (!isLenient || findings.all.some(({ path }) => path[0] === 'identity')) return;
  for (const path of IDENTITY_PATHS) {
    const own = await asker.ask({ path, form });
    if (!isUsable(own)) continue;
    const stranger = await asker.ask({ path, form, isFalse: true });
    if (isUsable(stranger)) continue;
    return findings.proved(['identity'], path, `${said(own)} with the credential, ${stranger.status} with a false one`);
  }
  findings.guessed(
    ['identity'],
    null,
    'a false credential is answered as if there were none, and no path says who is asking',
  );
}
