import type { Network } from '../config/network.ts';
import { profileSchema } from '../config/profile/profile.ts';
import { rateDialectSchema } from '../config/profile/rate-dialect.ts';
import { answerMemory } from '../http/body/answer-memory.ts';
import { createAgent, createExchange, type SendRequest, type WireAnswer } from '../http/exchange.ts';
import { type AnswerHeaders, createJudge, type OutcomeVerdict } from '../http/outcome/outcome-table.ts';
import { interpret } from '../http/outcome/read-answer.ts';
import { readAnswerLimits } from '../http/rate-limit/answer-limits.ts';
import { createRateLimiter, type RateLimiter } from '../http/rate-limit/rate-limiter.ts';
import { firstHop, type Hop, nextHop } from '../http/redirect.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import type { JsonValue } from '../model/json.ts';
import { clockOf } from '../model/timestamp-text.ts';
import { scrub } from '../observe/scrub.ts';
import { type Credential, type CredentialForm, falseSecret, NO_CREDENTIAL } from './credential-forms.ts';

export type QueryParams = Readonly<Record<string, string>>;

/** A request of an experiment: always a GET. */
export interface Question {
  /** Below the base URL. */
  path: string;
  query?: QueryParams;
  /** In place of the form that was found. */
  form?: CredentialForm;
  /** Sends a false credential. */
  isFalse?: boolean;
}

/** The response to a question. Never an error: a service may respond as it likes. */
export interface Answer {
  /** Path and query as requested, without the credential. */
  asked: string;
  /** Where redirects led, without the credential. */
  url: URL;
  /** 0 if no response came. */
  status: number;
  headers: AnswerHeaders;
  /** The parsed body, also of a refusal; undefined if it is not JSON. */
  json: JsonValue | undefined;
  /** The beginning of the body of a refusal. */
  text: string;
  /** The body of a success as UTF-8. */
  bytes: Buffer;
  /** Why the response cannot be used; empty for a usable 2xx. */
  problem: string;
  /** By the response's own `Date`, in epoch milliseconds. */
  serverDate: number | null;
}

/** The address of a question, without its credential. */
export function urlFor(baseUrl: URL, { path, query = {} }: Question): URL {
  const url = new URL(baseUrl);
  const [plain = '', search = ''] = path.split('?');
  url.pathname = url.pathname.replace(/\/+$/, '') + plain;
  url.search = search;
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url;
}

/** Path and query as they are shown, below the base URL if they are. */
export function shownPath(baseUrl: URL, url: URL): string {
  const base = baseUrl.pathname.replace(/\/+$/, '');
  const path = url.pathname.startsWith(`${base}/`) ? url.pathname.slice(base.length) : url.pathname;
  const search = url.search.replaceAll('+', ' ');
  try {
    return path + decodeURIComponent(search);
  } catch {
    return path + search;
  }
}

/** `GET /posts?limit=2: 200`, or why the response cannot be read. */
export function said({ asked, status, problem }: Answer): string {
  if (status === 0) return `GET ${asked}: ${problem}`;
  return `GET ${asked}: ${status}${problem === '' || status >= 300 ? '' : `, ${problem}`}`;
}

/** True for a success with a body that was read. */
export function isUsable(answer: Answer): boolean {
  return answer.problem === '' && answer.json !== undefined;
}

/** True if the service has refused the request, by its status. */
export function isRefusal({ status }: Answer): boolean {
  return status >= 400 && status < 500 && status !== 429;
}

/** The error if a service has not responded to any request. */
export function unreachable({ origin }: URL, why: string): SyncError {
  return new SyncError('probe_failed', `nothing answers at ${origin}: ${why}`, {
    recovery: 'stop',
    hint: 'check the address, that the service runs, and what stands between here and there (network, proxy, certificate)',
  });
}

/** Thrown if the request budget is used up. */
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

const MAX_ATTEMPTS = 3;
const PLAIN_HEADERS = { accept: 'application/json', 'user-agent': 'content-sync' };
const BOUNDS = { values: 1_000_000, digits: 1_000_000 };
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** The longest wait that an interactive user has to accept. */
const MAX_WAIT_MS = 60_000;

const judge = createJudge([]);

/**
 * Sends a bounded number of requests to an unknown service, each once: one at a time, at the pace that the service
 * states. Has connections of its own, which it closes when it is disposed of.
 */
export class Asker implements AsyncDisposable {
  readonly #options: AskerOptions;
  readonly #agent: ReturnType<typeof createAgent>;
  readonly #exchange: SendRequest;
  readonly #governor: RateLimiter;
  readonly #known = new Map<string, Promise<Answer>>();
  #reserved = 0;
  /** Statuses of all responses so far. */
  readonly statuses = new Set<number>();
  /** Requests sent, redirects and repetitions included. */
  spent = 0;
  /** Why no response came so far; null if one did, or nothing was requested. */
  silence: string | null = null;
  /** The form of the credential that is sent. */
  form: CredentialForm = NO_CREDENTIAL;

  constructor(options: AskerOptions) {
    const { clock, network } = options;
    const defaults = profileSchema.parse({ resources: { any: { path: '/', page: { style: 'page' } } } });
    const http = { ...defaults.http, timeout: 30_000, headers_timeout: 20_000 };
    this.#options = options;
    this.#agent = createAgent(http, network);
    this.#exchange = createExchange(this.#agent, http, clock);
    const dialect = rateDialectSchema.parse('auto');
    this.#governor = createRateLimiter({ clock, dialect, share: 0.9, concurrency: 1, maxWaitMs: MAX_WAIT_MS });
  }

  async [Symbol.asyncDispose]() {
    await this.#agent.destroy();
    await this.#governor.close();
  }

  /** Requests that may still be sent. */
  get left(): number {
    return Math.max(0, this.#options.most - this.spent - this.#reserved);
  }

  /** True if the service has responded with nothing but 401 and 403. */
  isRefused(): boolean {
    return this.statuses.size > 0 && this.statuses.isSubsetOf(new Set([401, 403]));
  }

  /** Reserves requests for later: if no others are left, `RequestsSpent` is thrown. */
  reserve(requests: number): void {
    this.#reserved = requests;
  }

  /** Where a redirect has led: requested there, a listing costs one request instead of two. */
  pathOf({ url }: Answer): string {
    return shownPath(this.#options.baseUrl, new URL(url.pathname, url));
  }

  /** Throws `RequestsSpent`, `DeferredError` for a wait that is too long, and the signal's reason. */
  ask(question: Question): Promise<Answer> {
    const { form = this.form, isFalse = false } = question;
    const url = urlFor(this.#options.baseUrl, question);
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
    for (let attempts = 1; ;) {
      const carried = hop.credentialed && secret !== '' ? form.carry(secret) : {};
      const { wire, answer, verdict } = await this.#attempt(hop, carried, asked);
      if (REDIRECTS.has(wire.status)) {
        try {
          hop = nextHop(hop, wire.headers['location'], policy);
          continue;
        } catch (error) {
          if (!(error instanceof SyncError)) throw error;
          return this.#noted({ ...answer, problem: error.message });
        }
      }
      const mayRetry = verdict.outcome === 'limited' || verdict.outcome === 'retry';
      // A body that is not JSON stays so.
      const isSuccess = wire.failure === null && wire.status >= 200 && wire.status < 300;
      if (!mayRetry || attempts >= MAX_ATTEMPTS || isSuccess) return this.#noted(answer);
      attempts += 1;
    }
  }

  #noted(answer: Answer): Answer {
    if (answer.status !== 0) this.statuses.add(answer.status);
    this.silence = this.statuses.size > 0 ? null : answer.problem;
    return answer;
  }

  /** Sends one request when the rate limiter permits it; the limits that the response states apply to the next one. */
  async #attempt(
    hop: Hop,
    carried: ReturnType<CredentialForm['carry']>,
    asked: string,
  ): Promise<{ wire: WireAnswer; answer: Answer; verdict: OutcomeVerdict }> {
    const { clock, signal, asking } = this.#options;
    signal.throwIfAborted();
    if (this.left === 0) throw new RequestsSpent(`no request is left for ${asked}`);
    this.spent += 1;
    asking?.(asked, this.spent);
    const url = new URL(hop.url);
    for (const [name, value] of Object.entries(carried.query ?? {})) url.searchParams.set(name, value);
    return this.#governor.run(
      'incremental',
      async (dialect) => {
        const hold = answerMemory.open();
        try {
          const request = { url, method: 'GET' as const, headers: { ...PLAIN_HEADERS, ...carried.headers }, signal };
          const wire = await this.#exchange(request, { count: () => undefined, hold });
          const reading = interpret(wire, () => true, { ...BOUNDS, hold });
          const limits = readAnswerLimits({ ...wire, body: reading.seen.json }, dialect);
          const verdict = judge({ ...reading.seen, limits });
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
          const facts = wire.status === 0 ? null : { ...wire, limits, limited: verdict.outcome === 'limited' };
          return { result: { wire, answer, verdict }, facts };
        } finally {
          hold.release();
        }
      },
      signal,
    );
  }
}
