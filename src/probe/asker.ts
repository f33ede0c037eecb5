import { answerMemory } from '../http/body/answer-memory.ts';
import { createAgent } from '../http/dispatcher.ts';
import { createExchange, type Exchange, type WireAnswer } from '../http/exchange.ts';
import { interpret } from '../http/outcome/interpret.ts';
import type { AnswerHeaders } from '../http/outcome/outcome-table.ts';
import { createJudge, type OutcomeVerdict } from '../http/outcome/outcome.ts';
import { firstHop, type Hop, nextHop, type OriginPolicy } from '../http/redirect.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import { clockOf } from '../model/http-date.ts';
import type { JsonValue } from '../model/json.ts';
import { scrub } from '../observe/scrub/scrub.ts';
import { type Credential, type CredentialForm, falseSecret, NO_CREDENTIAL } from './credential.ts';
import { type Attempted, createGovernor, type Governor } from '../queue/governor.ts';
import { readAnswerLimits } from '../queue/limits/answer-limits.ts';
import type { Network } from '../settings/network.ts';
import { profileSchema } from '../source/profile.ts';
import { rateDialectSchema } from '../source/rate-dialect.ts';

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
  exchange: Exchange;
  governor: Governor;
  clock: Clock;
  secrets: readonly string[];
  most: number;
  signal: AbortSignal;
  /** Called before each request is sent. */
  asking?: ((asked: string, number: number) => void) | undefined;
}

const ATTEMPTS = 3;
const PLAIN_HEADERS = { accept: 'application/json', 'user-agent': 'content-sync' };
const BOUNDS = { values: 1_000_000, digits: 1_000_000 };
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** Sends a bounded number of requests to a service, each once. */
export class Asker {
  readonly #options: AskerOptions;
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
    this.#options = options;
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
    const { baseUrl, secrets } = this.#options;
    const form = question.form ?? this.form;
    const url = urlFor(baseUrl, question);
    const key = `${form.shown} ${question.isFalse === true ? 'false' : 'own'} ${url.href}`;
    const found = this.#known.get(key);
    if (found !== undefined) return found;
    const asked = scrub(shownPath(baseUrl, url), secrets);
    const spend = (): void => this.#spend(asked);
    const answer = askOnce(this.#options, { url, form, isFalse: question.isFalse ?? false, asked, spend }).then(
      (each) => {
        if (each.status !== 0) this.statuses.add(each.status);
        this.silence = this.statuses.size > 0 ? null : each.problem;
        return each;
      },
    );
    this.#known.set(key, answer);
    // A request that could not be sent may be sent again.
    answer.catch(() => this.#known.delete(key));
    return answer;
  }

  #spend(asked: string): void {
    if (this.left === 0) throw new RequestsSpent(`no request is left for ${asked}`);
    this.spent += 1;
    this.#options.asking?.(asked, this.spent);
  }
}

interface Asking {
  url: URL;
  form: CredentialForm;
  isFalse: boolean;
  asked: string;
  spend: () => void;
}

async function askOnce(options: AskerOptions, asking: Asking): Promise<Answer> {
  const policy = { home: options.baseUrl.origin, allowed: new Set([options.baseUrl.origin]), secrets: options.secrets };
  let hop = firstHop(asking.url, policy);
  for (let failures = 1; ;) {
    const { wire, answer, verdict } = await attempt(options, asking, hop);
    if (REDIRECTS.has(wire.status)) {
      const next = followed(hop, wire, policy);
      if (typeof next === 'string') return { ...answer, problem: next };
      hop = next;
      continue;
    }
    const isWorthAnother = verdict.outcome === 'limited' || verdict.outcome === 'retry';
    if (!isWorthAnother || failures >= ATTEMPTS || isPlain(wire)) return answer;
    failures += 1;
  }
}

/** A body that is no JSON stays so, and a failure of the service is asked about only once more. */
function isPlain(wire: WireAnswer): boolean {
  return wire.failure === null && wire.status >= 200 && wire.status < 300;
}

function followed(hop: Hop, wire: WireAnswer, policy: OriginPolicy): Hop | string {
  try {
    return nextHop(hop, wire.headers['location'], policy);
  } catch (error) {
    if (error instanceof SyncError) return error.message;
    throw error;
  }
}

interface Tried {
  wire: WireAnswer;
  answer: Answer;
  verdict: OutcomeVerdict;
}

const judge = createJudge([]);

/** One request in its slot of the governor; what the answer says about limits holds for the next one. */
async function attempt(options: AskerOptions, asking: Asking, hop: Hop): Promise<Tried> {
  const { governor, clock, signal, credential, exchange } = options;
  signal.throwIfAborted();
  asking.spend();
  const secret = credential === null ? '' : asking.isFalse ? falseSecret(credential.secret) : credential.secret;
  const carried = hop.credentialed && secret !== '' ? asking.form.carry(secret) : {};
  const url = new URL(hop.url);
  for (const [name, value] of Object.entries(carried.query ?? {})) url.searchParams.set(name, value);
  return governor.run(
    'incremental',
    async (dialect): Promise<Attempted<Tried>> => {
      const hold = answerMemory.open();
      try {
        const request = { url, method: 'GET' as const, headers: { ...PLAIN_HEADERS, ...carried.headers }, signal };
        const wire = await exchange(request, { count: () => undefined, hold });
        const reading = interpret(wire, () => true, { ...BOUNDS, hold });
        const limits = readAnswerLimits({ ...wire, body: reading.seen.json }, dialect);
        const verdict = judge({ ...reading.seen, limits });
        const facts = wire.status === 0 ? null : { ...wire, limits, limited: verdict.outcome === 'limited' };
        const answer: Answer = {
          asked: asking.asked,
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

/** An asker with connections of its own; it closes them when it is disposed of. */
export interface OpenedAsker extends AsyncDisposable {
  asker: Asker;
}

interface AskerPlace extends Omit<AskerOptions, 'exchange' | 'governor'> {
  /** The proxies of the environment; none if absent. */
  network?: Network | undefined;
}

/** A longer wait than this is not waited for: a person is sitting there. */
const LONGEST_WAIT_MS = 60_000;

/** Opens connections to a service that nothing is known of: one request at a time, at the pace that it states. */
export function openAsker({ network, ...options }: AskerPlace): OpenedAsker {
  const { clock } = options;
  const http = { ...defaultHttp(), timeout: 30_000, headers_timeout: 20_000 };
  const agent = createAgent(http, { network, ca: undefined, insecure: false });
  const governor = createGovernor({
    clock,
    dialect: rateDialectSchema.parse('auto'),
    share: 0.9,
    concurrency: 1,
    maxWaitMs: LONGEST_WAIT_MS,
  });
  return {
    asker: new Asker({ ...options, exchange: createExchange(agent, http, clock), governor }),
    async [Symbol.asyncDispose]() {
      await agent.destroy();
      await governor.close();
    },
  };
}

/** The error of a service of which no question was answered. */
export function unreachable({ origin }: URL, why: string): SyncError {
  return new SyncError('probe_failed', `nothing answers at ${origin}: ${why}`, {
    recovery: 'stop',
    hint: 'check the address, that the service runs, and what stands between here and there (network, proxy, certificate)',
  });
}

function defaultHttp() {
  return profileSchema.parse({ resources: { any: { path: '/', page: { style: 'page' } } } }).http;
}
