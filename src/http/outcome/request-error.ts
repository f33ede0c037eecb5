/** The error with which a failed request ends, and its hint. */
import { SyncError } from '../../model/errors.ts';
import { holdsSecret } from '../../observe/scrub.ts';
import type { SentCredential } from '../auth/credentials.ts';
import { scrubbedSnippet, snippet } from '../body/read-body.ts';
import type { HttpMethod } from '../client.ts';
import type { WireAnswer } from '../exchange.ts';
import { errorIn, type OutcomeVerdict, partialSignIn, SENT_AS } from './outcome-table.ts';
import type { AnswerReading } from './read-answer.ts';

/** An attempt that was judged. */
export interface Judged {
  kind: 'judged';
  verdict: OutcomeVerdict;
  answer: WireAnswer;
  reading: AnswerReading;
  /** The source's own credential as it was sent; null if none was. */
  sent: SentCredential | null;
}

/** The id under which the service's operators find this request; null if the answer has none. */
export function requestId(headers: Judged['answer']['headers'], secrets: readonly string[]): string | null {
  const value = REQUEST_ID_HEADERS.map((name) => headers[name]).find((one) => typeof one === 'string' && one !== '');
  return typeof value === 'string' ? scrubbedSnippet(value, secrets, 80) : null;
}

/** Headers in which services and proxies identify a request. */
const REQUEST_ID_HEADERS = [
  'x-request-id',
  'request-id',
  'x-correlation-id',
  'x-contentful-request-id',
  'x-github-request-id',
  'x-amzn-requestid',
  'x-amz-request-id',
  'x-ms-request-id',
  'x-trace-id',
  'cf-ray',
] as const;

/**
 * The error with which a request ends: method, URL (as `shownUrl` writes it), status, request id, attempts, and the
 * beginning of what came, cleaned. `recovery` is `stop` for a verdict that asking again cannot change.
 */
export function requestError(of: {
  judged: Judged;
  method: HttpMethod;
  url: string;
  attempts: number;
  hint: string | undefined;
  secrets: readonly string[];
  note?: string;
}): SyncError {
  const { verdict, answer } = of.judged;
  const id = requestId(answer.headers, of.secrets);
  const parts = [
    `${of.method} ${of.url} ${answer.status === 0 ? 'failed' : `answered ${answer.status}`}${id === null ? '' : ` (request ${id})`}`,
    `: ${explanation(of.judged, of.secrets)}`,
    of.attempts > 1 ? `; ${of.attempts} attempts` : '',
    of.note === undefined ? '' : `; ${of.note}`,
  ];
  const recovery = verdict.outcome === 'stop' || verdict.outcome === 'reauth' ? 'stop' : 'retry';
  return new SyncError(verdict.code, parts.join(''), { recovery, hint: of.hint, requestId: id ?? undefined });
}

/** Why, and the beginning of what came. A parser quotes a few characters, which may be a part of a secret. */
function explanation({ verdict, answer, reading }: Judged, secrets: readonly string[]): string {
  if (answer.failure !== null) return `${verdict.reason} (${answer.failure})`;
  if (reading.defect !== '') {
    return holdsSecret(reading.bytes.toString(), secrets) ? verdict.reason : snippet(reading.defect);
  }
  const { seen } = reading;
  const excerpt = scrubbedSnippet(seen.excerpt.trim() || errorIn(seen) || partialSignIn(seen), secrets);
  return excerpt === '' ? verdict.reason : `${verdict.reason}: ${excerpt}`;
}

/** The part of a request that decides about the hint. */
interface FailedRequest {
  url: URL;
  /** The profile's `version_prefix`. */
  versionPrefix: string;
}

/** One circumstance that says more than the row of the outcome table, and what to do about it; null if it is not so. */
type Circumstance = (judged: Judged, asked: FailedRequest) => string | null;

const CIRCUMSTANCES: readonly Circumstance[] = [versionTwice, openPort, otherScheme];

/** The hint for a failed request: by its circumstances, else by its outcome. Pure. */
export function hintFor(judged: Judged, asked: FailedRequest): string | undefined {
  for (const circumstance of CIRCUMSTANCES) {
    const hint = circumstance(judged, asked);
    if (hint !== null) return withSentAs(hint, judged);
  }
  return judged.verdict.hint === undefined ? undefined : withSentAs(judged.verdict.hint, judged);
}

function withSentAs(hint: string, { sent }: Judged): string {
  return hint.replace(SENT_AS, sent === null ? '' : describeCredential(sent)).trimEnd();
}

/** Names where the credential was, and the word before it, but nothing of the credential itself. */
function describeCredential({ headers, query }: SentCredential): string {
  const names = Object.entries(headers).map(([name, value]) => {
    if (name === 'cookie') return `the cookie ${value.replace(/=.*/s, '')}`;
    if (name !== 'authorization') return `the header ${name}`;
    const [, scheme] = /^([A-Z][A-Za-z-]{2,15}) /.exec(value) ?? [];
    return scheme === undefined ? 'Authorization without a word before it' : `Authorization: ${scheme}`;
  });
  const sent = [...names, ...Object.keys(query).map((name) => `the query parameter ${name}`)].join(' and ');
  if (sent === '') return 'No credential was sent: set auth in the profile and in the configuration.';
  return `It was sent as ${sent}; if the service wants it in another form, describe that under auth in the profile.`;
}

/** Codes of an unknown address. */
const WRONG_PLACE: ReadonlySet<string> = new Set(['not_found', 'gone', 'not_the_api']);

function versionTwice({ verdict }: Judged, { url, versionPrefix }: FailedRequest): string | null {
  if (versionPrefix === '' || !WRONG_PLACE.has(verdict.code)) return null;
  if (!`${url.pathname}/`.includes(`${versionPrefix}${versionPrefix}/`)) return null;
  return (
    `The address has ${versionPrefix} twice. version_prefix adds it: leave it out of base_url and of the paths in the ` +
    "profile, or set version_prefix: '' in the profile."
  );
}

/** Codes of a port of https that does not say so to a client that speaks http: it hangs up, or sends an alert. */
const HUNG_UP: ReadonlySet<string> = new Set(['connection_lost', 'bad_http']);

function openPort({ verdict, answer }: Judged, { url }: FailedRequest): string | null {
  if (answer.status !== 0 || url.protocol !== 'http:' || !HUNG_UP.has(verdict.code)) return null;
  return (
    'If it stays, the port may speak https only: begin base_url with https://. Else something between here and the ' +
    'service damages its answers or cuts them off.'
  );
}

/** The schemes that a 401 names (RFC 9110, 11.6.1), if ours is not among them. */
function otherScheme({ verdict, answer, sent }: Judged): string | null {
  const challenges = [answer.headers['www-authenticate'] ?? []].flat();
  const schemes = challenges.flatMap((text) => /^\s*([\w-]+)/.exec(text)?.[1] ?? []);
  if (verdict.outcome !== 'reauth' || schemes.length === 0) return null;
  const [, own = 'Bearer'] = /^([\w-]+) /.exec(sent?.headers['authorization'] ?? '') ?? [];
  if (challenges.some((text) => text.toLowerCase().includes(own.toLowerCase()))) return null;
  return `The service asks for ${snippet(schemes.join(', '), 40)}. ${verdict.hint ?? ''}`.trimEnd();
}
