// The outcome table: what an answer or a failure means for its request (ok, retry, limited, reauth, skip, stop). The
// first row that fits decides; the rows of the profile (`outcomes`) come before the built-in ones. Example: 503 with
// Retry-After is `limited`, so the rate limiter waits; 503 without it is `retry`.
import type { AnswerConditions, AnswerRule, OutcomeRule } from '../../config/profile/request-fields.ts';
import type { JsonObject, JsonValue } from '../../model/json.ts';
import type { Outcome } from '../../model/vocabulary.ts';
import { fieldAt, isObject } from '../../rows/records/as-record.ts';
import type { AnswerLimits } from '../rate-limit/answer-limits.ts';

/** Headers of an answer: names in lower case, repeated headers as arrays. */
export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

interface ResponseBody {
  /** The parsed body, also of an error response if it is JSON. */
  json: JsonValue | undefined;
  /** True if the body is one record, so that a field `error` belongs to it. */
  isRecord: boolean;
}

/** The parts of a response, or of a failed attempt, that decide the outcome. */
export interface ReceivedResponse extends ResponseBody {
  /** 0 if no answer came. */
  status: number;
  headers: AnswerHeaders;
  limits: AnswerLimits;
  /** Error code if the response is incomplete; null if it is complete. */
  transport: string | null;
  /** Error code of a complete 2xx with an unusable body; null if it is usable. */
  content: string | null;
  /** The beginning of the body if the response is no 2xx, as sent. */
  excerpt: string;
}

/** One row of the table: every condition that is present must hold. */
interface OutcomeRow extends OutcomeVerdict {
  /** Codes of `transport` or `content` failures; a final `*` matches any ending. */
  failure?: readonly string[];
  /** `404` or `5xx`. */
  status?: readonly string[];
  when?: (response: ReceivedResponse) => boolean;
}

/** The decision about one attempt. */
export interface OutcomeVerdict {
  outcome: Outcome;
  /** Stable, because scripts and other modules match on it. */
  code: string;
  reason: string;
  hint?: string;
  /** Max attempts, if fewer than the profile allows. */
  attempts?: number;
}

/** A retry rarely fixes a defect in a body, so there are fewer attempts than for a lost connection. */
const BODY_ATTEMPTS = 3;

const THROTTLED = /rate.?limit|too many requests|throttl|quota exceeded|abuse detection/i;

/** The response of nginx, Go and Apache to http on their https port. */
const WANTS_TLS = /plain HTTP request was sent to HTTPS|HTTP request to an HTTPS server|plain HTTP to an SSL-enabled/i;

const MORE_MEMORY =
  'Ask for smaller pages (page.size in the profile), or give the process more memory: a larger container, or ' +
  'NODE_OPTIONS=--max-old-space-size=<MiB>.';

const DAMAGED = 'If it stays, report it to the service, or check the proxy in between.';
const CUT_OFF =
  'If it stays and base_url is http:, the port may speak https only: begin base_url with https://. Else something ' +
  'between here and the service damages its answers or cuts them off, or base_url leads to something else.';

/** Rows for incomplete responses, and for those that take too much memory. */
const TRANSPORT_ROWS: readonly OutcomeRow[] = [
  row('stop', 'tls', 'the port does not speak TLS', {
    failure: ['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG', 'ERR_SSL_HTTP_REQUEST'],
    hint: 'If the service speaks http there, begin base_url with http://; else name the port of https in base_url.',
  }),
  row('stop', 'tls', 'the TLS certificate or handshake was refused', {
    failure: [
      'CERT_*',
      'ERR_TLS_*',
      'ERR_SSL_*',
      'EPROTO',
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'SELF_SIGNED_CERT_IN_CHAIN',
      'UNABLE_TO_*',
      'HOSTNAME_MISMATCH',
      'INVALID_CA',
    ],
    hint: "Check the service's certificate and base_url; for a private authority, name the file with its certificate in http.ca_file of the source, or in the environment's NODE_EXTRA_CA_CERTS. A service that wants a certificate of the client gets the one in http.cert_file.",
  }),
  row('stop', 'unsupported_encoding', "the answer's headers are larger than 16 KiB", {
    failure: ['UND_ERR_HEADERS_OVERFLOW', 'HPE_HEADER_OVERFLOW'],
    hint: 'The service or a proxy in front of it sends too many headers or cookies.',
  }),
  row('stop', 'body_too_large', 'the body is larger than http.max_body, or needs more memory than one answer may use', {
    failure: ['body_too_large'],
    hint: `${MORE_MEMORY} The limits are http.max_body, http.max_values and http.max_digits of the profile.`,
  }),
  row('retry', 'memory_full', 'there is no memory for the answer beside the others in hand, of all sources together', {
    failure: ['memory_full'],
    hint: MORE_MEMORY,
  }),
  row('stop', 'unsupported_encoding', 'the body has a content encoding or charset that is not supported', {
    failure: ['unsupported_encoding'],
    hint: 'Read are UTF-8, UTF-16 and Latin-1, compressed by gzip, deflate, br or zstd, two of them at most.',
  }),
  row('retry', 'proxy_failed', 'the proxy does not lead to the service', {
    failure: ['UND_ERR_ABORTED', 'UND_ERR_PRX_*', 'UND_ERR_PROXY*'],
    hint: 'Check http.proxy of the source (or HTTPS_PROXY), its user and password, and whether it may go to the service.',
  }),
  row('stop', 'interrupted', 'the client was closed', { failure: ['UND_ERR_DESTROYED', 'UND_ERR_CLOSED'] }),
  row('stop', 'bad_request', 'the request cannot be sent as it is', {
    failure: ['UND_ERR_INVALID_ARG', 'ERR_INVALID_*'],
    hint: 'Check headers and paths in the profile.',
  }),
  row('retry', 'timeout', 'the answer did not arrive in time', {
    failure: ['deadline', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'],
    hint: 'Raise http.timeout or http.headers_timeout in the profile, or ask for smaller pages.',
  }),
  row('retry', 'unreachable', 'the service cannot be reached', {
    failure: [
      'ECONNREFUSED',
      'ENOTFOUND',
      'EAI_AGAIN',
      'UND_ERR_CONNECT_TIMEOUT',
      'ETIMEDOUT',
      'EHOSTUNREACH',
      'ENETUNREACH',
      'ENETDOWN',
    ],
    hint: 'Check base_url, the network, and that the service is up.',
  }),
  row('retry', 'unreachable', 'the answer is not valid HTTP', {
    failure: ['HPE_*'],
    hint: CUT_OFF,
  }),
  row('retry', 'bad_encoding', 'the body is cut off or not what Content-Encoding says', {
    failure: ['bad_encoding'],
    attempts: BODY_ATTEMPTS,
    hint: DAMAGED,
  }),
  row('retry', 'unreachable', 'the connection was lost before the answer was complete', {
    failure: ['UND_ERR_*', 'E*'],
    hint: CUT_OFF,
  }),
  row('stop', 'unreachable', 'the request failed', { failure: ['*'], when: (response) => response.transport !== null }),
];

/** Placeholder in a hint for how the credential was sent, because services refuse a wrong form by 400, 401 or 403. */
export const SENT_AS = '{sent as}';

const SLOWER = 'Lower rate.share or rate.requests_per_second in the configuration.';

/** Rows for complete responses with an error status; with a stated wait, a temporary failure counts as a limit. */
const STATUS_ROWS: readonly OutcomeRow[] = [
  row('limited', 'limited', 'the service limits the rate of requests', { status: ['429', '420', '430'], hint: SLOWER }),
  row('limited', 'limited', 'the service names a time to come back', {
    status: ['408', '409', '421', '423', '425', '5xx'],
    when: namesWait,
  }),
  row('reauth', 'auth_failed', 'the credential was not accepted', {
    status: ['401'],
    hint: `Check auth in the configuration: the key or client may be wrong, expired or revoked, and with OAuth the scope or token_url. ${SENT_AS}`,
  }),
  row('limited', 'limited', 'the service limits the rate of requests', {
    status: ['403'],
    when: saysThrottled,
    hint: SLOWER,
  }),
  row('stop', 'forbidden', 'the credential has no permission for this', {
    status: ['403'],
    hint: `Give the key or client read access to this resource, and check auth in the configuration. ${SENT_AS}`,
  }),
  row('stop', 'bad_request', 'the service speaks https at this port', {
    status: ['400'],
    when: (response) => WANTS_TLS.test(response.excerpt),
    hint: 'Begin base_url with https://.',
  }),
  row('stop', 'not_found', 'there is nothing at this address', {
    status: ['404'],
    hint: 'Check base_url, version_prefix and the path of the resource in the profile. If it means that nothing is listed, set empty: [404] there.',
  }),
  row('stop', 'not_found', 'what was asked for is gone', {
    status: ['410'],
    hint: "Look for its new address in the service's documentation, and set path of the resource in the profile.",
  }),
  row('retry', 'service_error', 'the service is not ready for the request', {
    status: ['408', '409', '421', '423', '425'],
  }),
  row('stop', 'not_the_api', 'something in between asks for a login or refuses', {
    status: ['407', '511'],
    hint: 'Check the network between here and the service (proxy, portal).',
  }),
  row('stop', 'unexpected_status', 'the service does not support this request', {
    status: ['501', '505', '506', '508', '510'],
  }),
  row('retry', 'service_error', 'the service failed', {
    status: ['5xx'],
    hint: "Try again later; see the service's status page.",
  }),
  row('stop', 'bad_request', 'the service refuses the request', {
    status: ['4xx'],
    hint: `Check the parameters of this resource in the profile, and auth in the configuration. ${SENT_AS}`,
  }),
];

/** Rows for complete 2xx responses. */
const CONTENT_ROWS: readonly OutcomeRow[] = [
  row('stop', 'not_the_api', 'the answer is a web page, not JSON', {
    failure: ['not_the_api'],
    hint: 'Check base_url; a login page, a challenge or a proxy may stand in front of the service.',
  }),
  row('stop', 'not_the_api', 'the answer is declared as a web page', {
    status: ['2xx'],
    when: (response) => /^\s*(text\/html|application\/xhtml)/i.test(String(response.headers['content-type'] ?? '')),
    hint: 'Check base_url; if the service really sends JSON so, say so in outcomes of the profile.',
  }),
  row('retry', 'empty_body', 'the answer has no content', {
    failure: ['empty_body'],
    attempts: BODY_ATTEMPTS,
    hint: 'If it means that nothing is listed, set empty: [204] (for a body that is null, [null]) in the profile.',
  }),
  row('retry', 'bad_json', 'the body is not valid JSON in valid text', {
    failure: ['*'],
    attempts: BODY_ATTEMPTS,
    hint: DAMAGED,
  }),
  row('limited', 'limited', 'the service limits the rate of requests, by its body', {
    status: ['2xx'],
    when: (response) => THROTTLED.test(errorIn(response)),
    hint: SLOWER,
  }),
  row('retry', 'error_in_body', 'the answer is a success by status and an error by content', {
    status: ['2xx'],
    when: (response) => errorIn(response) !== '',
    attempts: BODY_ATTEMPTS,
    hint: `If such an answer is good and whole, take it for that by its own words, in the profile: ${outcomeRule('errors, contains: its words')}.`,
  }),
  row('retry', 'partial_answer', 'the answer says of itself that it leaves something out', {
    status: ['2xx'],
    when: (response) => partialSignIn(response) !== '',
    attempts: BODY_ATTEMPTS,
    hint: `Ask for smaller pages (page.size in the profile). If the field means something else, say so there: ${outcomeRule('the field, contains: "true"')}.`,
  }),
  row('ok', 'ok', 'a success', { status: ['2xx'] }),
];

/** The built-in rows, in the order of evaluation. */
const BUILT_IN_ROWS: readonly OutcomeRow[] = [...TRANSPORT_ROWS, ...STATUS_ROWS, ...CONTENT_ROWS];

/** An example row that accepts a 2xx whose body has a value at the path. */
function outcomeRule(path: string): string {
  return `outcomes: [{ status: '2xx', body: { path: ${path} }, outcome: ok }]`;
}

function row(outcome: OutcomeRow['outcome'], code: string, reason: string, rest: Partial<OutcomeRow>): OutcomeRow {
  return { ...rest, outcome, code, reason };
}

/** True if the response states a wait in Retry-After. */
function namesWait({ limits }: ReceivedResponse): boolean {
  return limits.retryAfterMs !== null;
}

/** True for a 403 that is a rate limit: it states a wait, an exhausted quota, or says so in the body. */
function saysThrottled(response: ReceivedResponse): boolean {
  const isExhausted = response.limits.quotas.some(({ remaining }) => remaining === 0);
  return namesWait(response) || isExhausted || THROTTLED.test(response.excerpt);
}

/** Fields of GitHub search, Elasticsearch and GraphQL gateways that mark an incomplete response. */
const INCOMPLETE_FIELD = /^(?:(?:is_?)?(?:partial|incomplete)(?:_?results?)?|timed_?out)$/i;

/**
 * Returns `error` and `errors` of a body as text; empty if absent. Records may be next to them, if a service could query
 * only some of its parts.
 */
export function errorIn({ json, isRecord }: ResponseBody): string {
  if (!isObject(json) || isRecord) return '';
  const errors = [json['error'], json['errors']].filter((value) => value !== undefined && statesError(value));
  return errors.map((value) => searchableText(value ?? null)).join(' ');
}

/** Returns the path of the field that marks a body as incomplete, at its top, in `meta` or `_shards`; empty if none does. */
export function partialSignIn({ json, isRecord }: ResponseBody): string {
  if (!isObject(json) || isRecord) return '';
  const { meta, _shards: shards } = json;
  if (isObject(shards) && typeof shards['failed'] === 'number' && shards['failed'] > 0) return '_shards.failed';
  const inMeta = isObject(meta) ? incompleteField(meta) : undefined;
  return incompleteField(json) ?? (inMeta === undefined ? '' : `meta.${inMeta}`);
}

function incompleteField(object: JsonObject): string | undefined {
  return Object.keys(object).find((key) => object[key] === true && INCOMPLETE_FIELD.test(key));
}

/** `{ code: 0, message: '' }` states no error, like null. */
function statesError(value: JsonValue): boolean {
  if (Array.isArray(value)) return value.some(hasValue);
  return isObject(value) ? Object.values(value).some(hasValue) : hasValue(value);
}

function hasValue(value: JsonValue): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (isObject(value)) return Object.keys(value).length > 0;
  return value !== null && value !== false && value !== '' && value !== 0;
}

/** Returns the text that a rule searches; `…` replaces a value that is too deep to serialize. */
function searchableText(value: JsonValue): string {
  try {
    return typeof value === 'string' ? value : JSON.stringify(value);
  } catch {
    return '…';
  }
}

/** Creates the function that decides the outcome of a response: by the rows of the profile, then by the built-in ones. */
export function createJudge(rules: readonly OutcomeRule[]): (response: ReceivedResponse) => OutcomeVerdict {
  const profileRows = rules.map(rowOfRule);
  return (response) => {
    const verdict = response.transport === null ? firstMatch(profileRows, response) : undefined;
    // A body that cannot be parsed is never `ok`, whatever the profile says.
    if (verdict !== undefined && !(verdict.outcome === 'ok' && response.json === undefined)) return verdict;
    return firstMatch(BUILT_IN_ROWS, response) ?? NO_ROW;
  };
}

const NO_ROW: OutcomeVerdict = {
  outcome: 'stop',
  code: 'unexpected_status',
  reason: 'the answer has a status that says nothing here',
  hint: 'Add a row to outcomes in the profile that says what this status means.',
};

const TOKEN_HINT = 'Check auth.token_url (http or https, host, port), and that the token endpoint is up.';

/** Decides the outcome of a response of a token endpoint; `ok` if the grant has to read it. */
export function judgeTokenAnswer({ status, failure }: { status: number; failure: string | null }): OutcomeVerdict {
  const unavailable = { code: 'unreachable', hint: TOKEN_HINT };
  if (failure !== null) return { ...unavailable, outcome: 'retry', reason: 'the token endpoint cannot be reached' };
  if (status === 429) return { ...unavailable, outcome: 'limited', reason: 'the token endpoint limits requests' };
  if (status === 408 || status === 425 || status >= 500) {
    return { ...unavailable, outcome: 'retry', reason: 'the token endpoint fails' };
  }
  if (status < 300 || status >= 400) return { outcome: 'ok', code: 'ok', reason: 'an answer that the grant reads' };
  const hint = 'Set auth.token_url to the final address of the token endpoint.';
  return { outcome: 'stop', code: 'bad_token', reason: 'a redirect, which is not followed', hint };
}

/** Returns the outcome `skip` if the response matches the rule of its request; null otherwise. */
export function matchSkipRule(rule: AnswerRule | undefined, response: ReceivedResponse): OutcomeVerdict | null {
  if (rule === undefined || response.transport !== null || !rule.status.includes(response.status)) return null;
  return rule.body === null || bodyMatches(response.json, rule.body) ? DECLARED : null;
}

const DECLARED = { outcome: 'skip', code: 'declared', reason: 'the profile says what this answer means' } as const;

function firstMatch(rows: readonly OutcomeRow[], response: ReceivedResponse): OutcomeRow | undefined {
  const failure = response.transport ?? response.content;
  return rows.find(
    (row) =>
      (row.failure === undefined || isFailure(row.failure, failure)) &&
      (row.status === undefined || row.status.some((pattern) => isStatus(pattern, response.status))) &&
      (row.when === undefined || row.when(response)),
  );
}

function isFailure(patterns: readonly string[], code: string | null): boolean {
  if (code === null) return false;
  return patterns.some((pattern) => (pattern.endsWith('*') ? code.startsWith(pattern.slice(0, -1)) : code === pattern));
}

function isStatus(pattern: string, status: number): boolean {
  return pattern.endsWith('xx') ? Math.trunc(status / 100) === Number(pattern[0]) : status === Number(pattern);
}

function rowOfRule(rule: OutcomeRule): OutcomeRow {
  return {
    when: (response) => meetsConditions(rule, response),
    outcome: rule.outcome,
    code: rule.outcome === 'limited' ? 'limited' : 'outcome_rule',
    reason: rule.reason ?? 'a rule of the profile decides so',
    hint: 'See outcomes in the profile.',
  };
}

/** True if all conditions hold for an answer. */
export function meetsConditions(
  { status, header, body }: AnswerConditions,
  response: { status: number; headers: AnswerHeaders; json: JsonValue | undefined },
): boolean {
  return (
    (status === undefined || [status].flat().some((pattern) => isStatus(pattern, response.status))) &&
    (header === undefined || contains(headerText(response.headers, header.name), header.contains)) &&
    (body === undefined || bodyMatches(response.json, body))
  );
}

/** True if the value at the path is not null, and contains the text if there is one. */
export function bodyMatches(
  json: JsonValue | undefined,
  condition: { path: string; contains?: string | null | undefined },
): boolean {
  return contains(textAt(json, condition.path), condition.contains ?? undefined);
}

/** All values of a header as one text; undefined if the header is absent. */
export function headerText(headers: AnswerHeaders, name: string): string | undefined {
  const value = headers[name.toLowerCase()];
  return Array.isArray(value) ? value.join(', ') : value;
}

function contains(text: string | undefined, part: string | undefined): boolean {
  return text !== undefined && (part === undefined || text.toLowerCase().includes(part.toLowerCase()));
}

/** The value at a dotted path as text, JSON unless it is a string; undefined if it is absent or null. */
function textAt(body: JsonValue | undefined, path: string): string | undefined {
  const value = body === undefined ? undefined : fieldAt(body, path);
  return value === undefined || value === null ? undefined : searchableText(value);
}
