import type { Network } from '../config/network.ts';
import { profileSchema } from '../config/profile/profile.ts';
import { rateDialectSchema } from '../config/profile/rate-dialect.ts';
import { answerMemory } from '../http/body/answer-memory.ts';
import { createAgent, createExchange, type SendRequest, type WireAnswer } from '../http/exchange.ts';
import { interpret } from '../http/outcome/read-answer.ts';
import { type AnswerHeaders, createJudge, type OutcomeVerdict } from '../http/outcome/outcome-table.ts';
import { type Attempted, createRateLimiter, type Governor } from '../http/rate-limit/rate-limiter.ts';
import { readAnswerLimits } from '../http/rate-limit/answer-limits.ts';
import { firstHop, type Hop, nextHop, type OriginPolicy } from '../http/redirect.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import { clockOf } from '../model/http-date.ts';
import type { JsonValue } from '../model/json.ts';
import { scrub } from '../observe/scrub.ts';

export type QueryParams = Readonly<Record<string, string>>;

/** A request as an experiment proposes it: always a GET. */
export interface Question {
  /** Below the base URL. */
  path: string;
  query?: QueryParams;
  /** In place of the form that was found. */
  form?: CredentialForm;
  /** Asks with a secret that is none. */
  isFalse?: boolean;
}

/** What came of a question. Never an error: a service may answer as it likes. */
export interface Answer {
  /** Path and query as asked, without the credential. */
  asked: string;
  /** Where redirects led, the credential left out. */
  url: URL;
  /** 0 if no answer came. */
  status: number;
  headers: AnswerHeaders;
  /** The parsed body, also of a refusal; undefined if it is no JSON. */
  json: JsonValue | undefined;
  /** The beginning of the body of a refusal. */
  text: string;
  /** The body as UTF-8, of a success. */
  bytes: Buffer;
  /** Why the answer cannot be used; empty for a usable 2xx. */
  problem: string;
  /** By the answer's own `Date`, in epoch milliseconds. */
  serverDate: number | null;
}

/** The address of a question, without its credential. */
export function urlFor(baseUrl: URL, { path, query = {} }: Pick<Question, 'path' | 'query'>): URL {
  const url = new URL(baseUrl);
  const [plain = '', search = ''] = path.split('?');
  url.pathname = url.pathname.replace(/\/+$/, '') + plain;
  url.search = search;
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url;
}

/** Path and query as a person reads them, below the base URL where they are. */
export function shownPath(baseUrl: URL, url: URL): string {
  const base = baseUrl.pathname.replace(/\/+$/, '');
  const path = url.pathname.startsWith(`${base}/`) ? url.pathname.slice(base.length) : url.pathname;
  return path + decoded(url.search.replaceAll('+', ' '));
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** `GET /posts?limit=2: 200`, or why nothing can be read of it. */
export function said({ asked, status, problem }: Answer): string {
  if (status === 0) return `GET ${asked}: ${problem}`;
  return `GET ${asked}: ${status}${problem === '' || status >= 300 ? '' : `, ${problem}`}`;
}

/** True for a success with a body that was read. */
export function isUsable(answer: Answer): boolean {
  return answer.problem === '' && answer.json !== undefined;
}

/** True if the service has refused what was asked, by its status. */
export function isRefusal({ status }: Answer): boolean {
  return status >= 400 && status < 500 && status !== 429;
}

/** Thrown where no request is left. */
export class RequestsSpent extends Error {
  override readonly name = 'RequestsSpent';
}

interface AskerOptions {
  baseUrl: URL;
  credential: Credential | null;
  clock: Clock;
  secrets: readonly string[];
  /** Requests that may be sent. */
  most: number;
  signal: AbortSignal;
  /** The proxies of the environment; none if absent. */
  network?: Network | undefined;
  /** Called before each request is sent. */
  asking?: ((asked: string, number: number) => void) | undefined;
}

const ATTEMPTS = 3;
const PLAIN_HEADERS = { accept: 'application/json', 'user-agent': 'content-sync' };
const BOUNDS = { values: 1_000_000, digits: 1_000_000 };
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** A longer wait than this is not waited for: a person is sitting there. */
const LONGEST_WAIT_MS = 60_000;

const judge = createJudge([]);

/**
 * Sends a bounded number of requests to a service that nothing is known of, each once: one at a time, at the pace that it
 * states. Has connections of its own, which it closes when it is disposed of.
 */
export class Asker implements AsyncDisposable {
  readonly #options: AskerOptions;
  readonly #agent: ReturnType<typeof createAgent>;
  readonly #exchange: SendRequest;
  readonly #governor: Governor;
  readonly #known = new Map<string, Promise<Answer>>();
  #kept = 0;
  /** Statuses of all answers so far. */
  readonly statuses = new Set<number>();
  /** Requests sent, redirects and repetitions included. */
  spent = 0;
  /** Why nothing was answered so far; null if something was, or nothing was asked. */
  silence: string | null = null;
  /** The form of the credential that is sent. */
  form: CredentialForm = NO_CREDENTIAL;

  constructor(options: AskerOptions) {
    const { clock, network } = options;
    const usual = profileSchema.parse({ resources: { any: { path: '/', page: { style: 'page' } } } });
    const http = { ...usual.http, timeout: 30_000, headers_timeout: 20_000 };
    this.#options = options;
    this.#agent = createAgent(http, network);
    this.#exchange = createExchange(this.#agent, http, clock);
    this.#governor = createRateLimiter({
      clock,
      dialect: rateDialectSchema.parse('auto'),
      share: 0.9,
      concurrency: 1,
      maxWaitMs: LONGEST_WAIT_MS,
    });
  }

  async [Symbol.asyncDispose]() {
    await this.#agent.destroy();
    await this.#governor.close();
  }

  /** Requests that are left. */
  get left(): number {
    return Math.max(0, this.#options.most - this.spent - this.#kept);
  }

  /** True if the service has answered nothing but 401 and 403. */
  isRefused(): boolean {
    return this.statuses.size > 0 && this.statuses.isSubsetOf(new Set([401, 403]));
  }

  /** Keeps so many requests for later: with fewer left, `RequestsSpent` is thrown. */
  keep(requests: number): void {
    this.#kept = requests;
  }

  /** Where a redirect has led: asked there, a listing costs one request instead of two. */
  pathOf({ url }: Answer): string {
    return shownPath(this.#options.baseUrl, new URL(url.pathname, url));
  }

  /** Throws `RequestsSpent`, `DeferredError` for a wait that is too long, and the signal's reason. */
  ask(question: Question): Promise<Answer> {
    const { baseUrl } = this.#options;
    const { form = this.form, isFalse = false } = question;
    const url = urlFor(baseUrl, question);
    const key = `${form.shown} ${isFalse ? 'false' : 'own'} ${url.href}`;
    const found = this.#known.get(key);
    if (found !== undefined) return found;
    const answer = this.#askOnce(url, form, isFalse);
    this.#known.set(key, answer);
    // A request that could not be sent may be sent again.
    answer.catch(() => this.#known.delete(key));
    return answer;
  }

  async #askOnce(url: URL, form: CredentialForm, isFalse: boolean): Promise<Answer> {
    const { baseUrl, credential, secrets } = this.#options;
    const asked = scrub(shownPath(baseUrl, url), secrets);
    const secret = credential === null ? '' : isFalse ? falseSecret(credential.secret) : credential.secret;
    const policy = { home: baseUrl.origin, allowsOthers: false, secrets };
    let hop = firstHop(url, policy);
    for (let failures = 1; ;) {
      const { wire, answer, verdict } = await this.#attempt(
        hop,
        hop.credentialed && secret !== '' ? form.carry(secret) : {},
        asked,
      );
      if (REDIRECTS.has(wire.status)) {
        const next = followed(hop, wire, policy);
        if (typeof next === 'string') return this.#heard({ ...answer, problem: next });
        hop = next;
        continue;
      }
      const isWorthAnother = verdict.outcome === 'limited' || verdict.outcome === 'retry';
      // A body that is no JSON stays so.
      const isPlain = wire.failure === null && wire.status >= 200 && wire.status < 300;
      if (!isWorthAnother || failures >= ATTEMPTS || isPlain) return this.#heard(answer);
      failures += 1;
    }
  }

  #heard(answer: Answer): Answer {
    if (answer.status !== 0) this.statuses.add(answer.status);
    this.silence = this.statuses.size > 0 ? null : answer.problem;
    return answer;
  }

  /** One request in its slot of the governor; what the answer says about limits holds for the next one. */
  async #attempt(hop: Hop, carried: ReturnType<CredentialForm['carry']>, asked: string): Promise<Tried> {
    const { clock, signal } = this.#options;
    signal.throwIfAborted();
    if (this.left === 0) throw new RequestsSpent(`no request is left for ${asked}`);
    this.spent += 1;
    this.#options.asking?.(asked, this.spent);
    const url = new URL(hop.url);
    for (const [name, value] of Object.entries(carried.query ?? {})) url.searchParams.set(name, value);
    return this.#governor.run(
      'incremental',
      async (dialect): Promise<Attempted<Tried>> => {
        const hold = answerMemory.open();
        try {
          const request = { url, method: 'GET' as const, headers: { ...PLAIN_HEADERS, ...carried.headers }, signal };
          const wire = await this.#exchange(request, { count: () => undefined, hold });
          const reading = interpret(wire, () => true, { ...BOUNDS, hold });
          const limits = readAnswerLimits({ ...wire, body: reading.seen.json }, dialect);
          const verdict = judge({ ...reading.seen, limits });
          const facts = wire.status === 0 ? null : { ...wire, limits, limited: verdict.outcome === 'limited' };
          const answer: Answer = {
            asked,
            url: hop.url,
            status: wire.status,
            headers: wire.headers,
            json: reading.seen.json,
            text: reading.seen.excerpt.slice(0, 2_000),
            bytes: reading.bytes,
            problem: verdict.outcome === 'ok' ? '' : verdict.reason,
            serverDate: clockOf(wire.headers['date'], clock.now()),
          };
          return { result: { wire, answer, verdict }, facts };
        } finally {
          hold.release();
        }
      },
      signal,
    );
  }
}

interface Tried {
  wire: WireAnswer;
  answer: Answer;
  verdict: OutcomeVerdict;
}

function followed(hop: Hop, wire: WireAnswer, policy: OriginPolicy): Hop | string {
  try {
    return nextHop(hop, wire.headers['location'], policy);
  } catch (error) {
    if (error instanceof SyncError) return error.message;
    throw error;
  }
}

/** The error of a service of which no question was answered. */
export function unreachable({ origin }: URL, why: string): SyncError {
  return new SyncError('probe_failed', `nothing answers at ${origin}: ${why}`, {
    recovery: 'stop',
    hint: 'check the address, that the service runs, and what stands between here and there (network, proxy, certificate)',
  });
}

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

/** A credential of the same form with nothing of its text. */
function falseSecret(secret: string): string {
  const masked = secret.replaceAll(/[a-z]/gi, 'x').replaceAll(/\d/g, '0');
  return masked === secret ? `${secret.slice(0, -1)}y` : masked;
}
