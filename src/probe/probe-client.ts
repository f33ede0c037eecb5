// The HTTP client of the experiments. Unlike that of a sync it returns refusals too: that `/posts?limit=2` is answered
// by 400 is a finding. It sends GET only, one request at a time, at the pace of the service, within a budget.
import type { Network } from '../config/network.ts';
import { profileSchema } from '../config/profile/profile.ts';
import { rateDialectSchema } from '../config/profile/rate-dialect.ts';
import { MemoryReservation } from '../http/body/answer-memory.ts';
import { createAgent, createExchange, type SendRequest } from '../http/exchange.ts';
import { type AnswerHeaders, createJudge } from '../http/outcome/outcome-table.ts';
import { readResponseBody } from '../http/outcome/read-answer.ts';
import { readAnswerLimits } from '../http/rate-limit/answer-limits.ts';
import { BudgetRateLimiter, type RateLimiter } from '../http/rate-limit/rate-limiter.ts';
import { firstTarget, redirectTarget } from '../http/redirect.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import type { JsonValue } from '../model/json.ts';
import { readServerTime } from '../model/timestamp-text.ts';
import { scrub } from '../observe/scrub.ts';
import { type Credential, type CredentialForm, falseSecret, NO_CREDENTIAL } from './credential-forms.ts';

export type QueryParams = Readonly<Record<string, string>>;

/** A request of an experiment: always a GET. */
export interface ProbeRequest {
  /** Below the base URL; may have a query. */
  path: string;
  /** True for a path at the root of the service, as descriptions have it. */
  isAtRoot?: boolean;
  query?: QueryParams;
  headers?: QueryParams;
  /** Replaces the form of the credential that was found. */
  form?: CredentialForm;
  isFalse?: boolean;
}

/** What the service returned, also if that is a refusal, no JSON, or nothing at all. */
export interface ProbeResponse {
  requested: string;
  /** Where redirects led, without the credential. */
  url: URL;
  /** 0 if no response came. */
  status: number;
  headers: AnswerHeaders;
  /** The parsed body, also of a refusal; undefined if it is not JSON. */
  json: JsonValue | undefined;
  /** The beginning of a body that is a refusal, or no JSON. */
  text: string;
  /** The body of a success as UTF-8. */
  bytes: Buffer;
  /** Why the response cannot be used; empty for a usable 2xx. */
  problem: string;
  /** True if the same request may have another response later. */
  mayRetry: boolean;
  /** By the response's own `Date`, in epoch milliseconds. */
  serverDate: number | null;
}

/** True for a success with a body that was read. */
export function isUsable({ problem, json }: ProbeResponse): boolean {
  return problem === '' && json !== undefined;
}

/** True if the service refuses the request itself, not its rate. */
export function isRefusal({ status }: ProbeResponse): boolean {
  return status >= 400 && status < 500 && status !== 429;
}

/** The evidence `GET /posts?limit=2: 200`, or why the response cannot be read. */
export function describeResponse({ requested, status, problem }: ProbeResponse): string {
  if (status === 0) return `GET ${requested}: ${problem}`;
  return `GET ${requested}: ${status}${problem === '' || status >= 300 ? '' : `, ${problem}`}`;
}

/** The address of a request, without its credential. */
export function requestUrl(baseUrl: URL, { path, query = {}, isAtRoot = false }: ProbeRequest): URL {
  const url = isAtRoot ? new URL(baseUrl.origin) : new URL(baseUrl);
  const [pathname = '', search = ''] = path.split('?');
  url.pathname = url.pathname.replace(/\/+$/, '') + pathname;
  url.search = search;
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url;
}

/** Path and query as users read them, relative to the base URL if they are below it. */
export function displayPath(baseUrl: URL, url: URL): string {
  const base = baseUrl.pathname.replace(/\/+$/, '');
  const path = url.pathname.startsWith(`${base}/`) ? url.pathname.slice(base.length) : url.pathname;
  const query = Array.from(url.searchParams, ([name, value]) => `${name}=${value}`).join('&');
  return query === '' ? path : `${path}?${query}`;
}

/** The error that ends the probe. */
export function probeFailed(message: string, hint: string): SyncError {
  return new SyncError('probe_failed', message, { recovery: 'stop', hint });
}

/** Thrown if the request budget is used up. */
export class RequestsSpent extends Error {
  override readonly name = 'RequestsSpent';
}

export interface ProbeClientOptions {
  /** Http or https; paths are requested below it. */
  baseUrl: URL;
  /** Null for a service that wants none. */
  credential: Credential | null;
  /** `bearer`, `basic`, `header:<name>` or `query:<name>`: the only form of the credential that is tried. */
  auth?: string | undefined;
  /** If absent, enough to find a listing, and then more (`allowMore`). */
  maxRequests?: number | undefined;
  clock: Clock;
  /** The proxies of the environment; none if absent. */
  network?: Network | undefined;
  /** Texts that must not be written. */
  secrets: string[];
  signal: AbortSignal;
  /** Called with path and query of each request, without the credential, before it is sent. */
  progress?: ((requested: string, client: ProbeClient) => void) | undefined;
}

/** Of which some are those of the first listing. */
const SEARCH_REQUESTS = 67;
const MAX_ATTEMPTS = 3;
const MAX_DESCRIPTION_BYTES = 500_000;
const MAX_WAIT_MS = 60_000;
const HEADERS = { accept: 'application/json', 'user-agent': 'content-sync' };
const BODY_LIMITS = { values: 1_000_000, digits: 1_000_000 };
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);

/** Sends GET requests to an unknown service: each address once, and at most `maxRequests` of them. */
export class ProbeClient implements AsyncDisposable {
  readonly baseUrl: URL;
  readonly #options: ProbeClientOptions;
  readonly #agent: ReturnType<typeof createAgent>;
  readonly #exchange: SendRequest;
  readonly #limiter: RateLimiter;
  readonly #responses = new Map<string, Promise<ProbeResponse>>();
  #lastProblem = '';
  readonly statuses = new Set<number>();
  /** What the last refusal of a credential says. */
  lastChallenge = '';
  /** Requests sent, redirects and repetitions included. */
  spent = 0;
  maxRequests: number;
  /** How the credential is sent. */
  form: CredentialForm = NO_CREDENTIAL;
  /** What is examined: `credential`, `listings`, or the name of a resource. */
  about = 'credential';

  constructor(options: ProbeClientOptions) {
    const { clock, network, maxRequests = SEARCH_REQUESTS } = options;
    const defaults = profileSchema.parse({ resources: { any: { path: '/', page: { style: 'page' } } } });
    const http = { ...defaults.http, timeout: 30_000, headers_timeout: 20_000 };
    const dialect = rateDialectSchema.parse('auto');
    this.#options = options;
    this.baseUrl = options.baseUrl;
    this.maxRequests = maxRequests;
    this.#agent = createAgent(http, network);
    this.#exchange = createExchange(this.#agent, http, clock);
    this.#limiter = new BudgetRateLimiter({ clock, dialect, share: 0.9, concurrency: 1, maxWaitMs: MAX_WAIT_MS });
  }

  async [Symbol.asyncDispose]() {
    await this.#agent.destroy();
    await this.#limiter.close();
  }

  /** Further requests are allowed, unless the user has set their number. */
  allowMore(requests: number): void {
    if (this.#options.maxRequests === undefined) this.maxRequests += requests;
  }

  /** True if the service has responded with nothing but 401 and 403. */
  isRefused(): boolean {
    return this.statuses.size > 0 && this.statuses.isSubsetOf(new Set([401, 403]));
  }

  /** Throws `SyncError` if requests were sent, and the service has not responded to any. */
  refuseSilence(): void {
    if (this.statuses.size > 0 || this.#lastProblem === '') return;
    const hint =
      'check the address, that the service runs, and what stands between here and there (network, proxy, certificate)';
    throw probeFailed(`nothing answers at ${this.baseUrl.origin}: ${this.#lastProblem}`, hint);
  }

  /** The path to which redirects have led: requested there, a listing costs one request instead of two. */
  finalPath({ url }: ProbeResponse): string {
    return displayPath(this.baseUrl, new URL(url.pathname, url));
  }

  /** Throws `RequestsSpent`, `DeferredError` for a wait that is too long, and the signal's reason. */
  get(request: ProbeRequest): Promise<ProbeResponse> {
    const { form = this.form, isFalse = false, headers = {} } = request;
    const url = requestUrl(this.baseUrl, request);
    const key = `${form.shown} ${isFalse ? 'false' : 'own'} ${url.href} ${JSON.stringify(headers)}`;
    const known = this.#responses.get(key);
    if (known !== undefined) return known;
    const response = this.#follow(url, { form, isFalse, headers });
    this.#responses.set(key, response);
    // A request that could not be sent may be sent again.
    response.catch(() => this.#responses.delete(key));
    return response;
  }

  /** Sends a request, follows redirects, and tries again what may succeed later. */
  async #follow(url: URL, { form, isFalse, headers }: Pick<Required<ProbeRequest>, 'form' | 'isFalse' | 'headers'>) {
    const { credential, secrets } = this.#options;
    const shown = Object.entries(headers).map(([name, value]) => ` (${name}: ${value})`);
    const requested = scrub(displayPath(this.baseUrl, url) + shown.join(''), secrets);
    const secret = credential === null ? '' : isFalse ? falseSecret(credential.secret) : credential.secret;
    const policy = { home: this.baseUrl.origin, allowsOthers: false, secrets };
    let target = firstTarget(url, policy);
    for (let attempts = 1; ; attempts += 1) {
      const carried = target.credentialed && secret !== '' ? form.carry(secret) : {};
      const sent = new URL(target.url);
      for (const [name, value] of Object.entries(carried.query ?? {})) sent.searchParams.set(name, value);
      const response = await this.#send(sent, { ...headers, ...carried.headers }, requested);
      const { status, text } = response;
      response.url = target.url;
      try {
        if (REDIRECTS.has(status)) {
          target = redirectTarget(target, response.headers['location'], policy);
          attempts -= 1;
          continue;
        }
      } catch (error) {
        if (!(error instanceof SyncError)) throw error;
        Object.assign(response, { problem: error.message, mayRetry: false });
      }
      if (response.mayRetry && attempts < MAX_ATTEMPTS) continue;
      if (status !== 0) this.statuses.add(status);
      this.#lastProblem = response.problem;
      const challenge = `${String(response.headers['www-authenticate'] ?? '')} ${text}`;
      if (status === 401 || status === 403) this.lastChallenge = challenge;
      return response;
    }
  }

  /** Sends one request when the rate limiter permits it; the limits that the response states apply to the next one. */
  async #send(url: URL, sent: QueryParams, requested: string): Promise<ProbeResponse> {
    const { clock, signal, progress } = this.#options;
    signal.throwIfAborted();
    if (this.spent >= this.maxRequests) throw new RequestsSpent(`no request is left for ${requested}`);
    this.spent += 1;
    progress?.(requested, this);
    const request = { url, method: 'GET' as const, headers: { ...HEADERS, ...sent }, signal };
    return this.#limiter.run(
      'incremental',
      async (dialect) => {
        const reservation = new MemoryReservation();
        try {
          const wire = await this.#exchange(request, { count: () => undefined, reservation });
          const { response: seen, bytes } = readResponseBody(wire, () => true, { ...BODY_LIMITS, reservation });
          const limits = readAnswerLimits({ ...wire, body: seen.json }, dialect);
          const { outcome, reason } = createJudge([])({ ...seen, limits });
          const { status, headers } = wire;
          const { json } = seen;
          const isJson = status >= 300 || json !== undefined;
          // A success whose body is not JSON has none the next time either.
          const isSuccess = wire.failure === null && status >= 200 && status < 300;
          const known = { requested, url, status, headers, json, bytes };
          const result = {
            ...known,
            text: isJson ? seen.excerpt.slice(0, 2_000) : wire.bytes.toString('utf8', 0, MAX_DESCRIPTION_BYTES),
            problem: outcome === 'ok' ? '' : reason,
            mayRetry: (outcome === 'limited' || outcome === 'retry') && !isSuccess,
            serverDate: readServerTime(headers['date'], clock.now()),
          };
          return { result, facts: status === 0 ? null : { ...wire, limits, limited: outcome === 'limited' } };
        } finally {
          reservation.release();
        }
      },
      signal,
    );
  }
}
