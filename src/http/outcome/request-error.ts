// Builds the error of a failed request, such as `GET https://api.example.com/v1/content answered 403 (request abc):
// the credential has no permission for this`. Its hint is that of `outcome-table.ts`, or of a misconfiguration found here.
import { SyncError } from '../../model/errors.ts';
import { holdsSecret } from '../../observe/scrub.ts';
import type { SentCredential } from '../auth/credentials.ts';
import { shortenMasked, shortenText } from '../body/read-body.ts';
import type { HttpMethod } from '../client.ts';
import type { WireAnswer } from '../exchange.ts';
import { type AnswerHeaders, errorIn, type OutcomeVerdict, partialSignIn, SENT_AS } from './outcome-table.ts';
import type { AnswerReading } from './read-answer.ts';

export interface JudgedAttempt {
  kind: 'judged';
  verdict: OutcomeVerdict;
  answer: WireAnswer;
  reading: AnswerReading;
  /** The credential of the source as sent; null if it was not sent. */
  sent: SentCredential | null;
}

/** Returns the id under which the operators of the service find this request; null if the answer has none. */
export function requestId(headers: AnswerHeaders, secrets: readonly string[]): string | null {
  const value = REQUEST_ID_HEADERS.map((name) => headers[name]).find((one) => typeof one === 'string' && one !== '');
  return typeof value === 'string' ? shortenMasked(value, secrets, 80) : null;
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

interface FailedAttempts {
  judged: JudgedAttempt;
  method: HttpMethod;
  /** As `describeUrl` writes it. */
  url: string;
  attempts: number;
  hint: string | undefined;
  /** Texts that must not be in the message. */
  secrets: readonly string[];
  /** The end of the message, such as `the service kept limiting it`. */
  note: string | undefined;
}

/**
 * Creates the error of a request: method, URL, status, request id, reason with the beginning of the body, and attempts.
 * `recovery` is `stop` if a retry cannot help.
 */
export function requestError({ judged, method, url, attempts, hint, secrets, note }: FailedAttempts): SyncError {
  const { verdict, answer } = judged;
  const id = requestId(answer.headers, secrets);
  const parts = [
    `${method} ${url} ${answer.status === 0 ? 'failed' : `answered ${answer.status}`}${id === null ? '' : ` (request ${id})`}`,
    `: ${explanation(judged, secrets)}`,
    attempts > 1 ? `; ${attempts} attempts` : '',
    note === undefined ? '' : `; ${note}`,
  ];
  const recovery = verdict.outcome === 'stop' || verdict.outcome === 'reauth' ? 'stop' : 'retry';
  return new SyncError(verdict.code, parts.join(''), { recovery, hint, requestId: id ?? undefined });
}

/** Returns the reason and the beginning of the body. A parser error quotes the body, which may hold a secret. */
function explanation({ verdict, answer, reading }: JudgedAttempt, secrets: readonly string[]): string {
  if (answer.failure !== null) return `${verdict.reason} (${answer.failure})`;
  if (reading.defect !== '') {
    return holdsSecret(reading.bytes.toString(), secrets) ? verdict.reason : shortenText(reading.defect);
  }
  const { response } = reading;
  const excerpt = shortenMasked(response.excerpt.trim() || errorIn(response) || partialSignIn(response), secrets);
  return excerpt === '' ? verdict.reason : `${verdict.reason}: ${excerpt}`;
}

/**
 * Returns the hint for a failed request: that of a known misconfiguration, else that of the outcome table. `versionPrefix`
 * is `version_prefix` of the profile.
 */
export function hintFor(judged: JudgedAttempt, url: URL, versionPrefix: string): string | undefined {
  const { verdict, sent } = judged;
  const known = doubleVersionHint(judged, url, versionPrefix) ?? authSchemeHint(judged);
  const hint = known ?? verdict.hint;
  return hint?.replace(SENT_AS, sent === null ? '' : describeCredential(sent)).trimEnd();
}

/** Names the headers and parameters of the credential and its scheme, but nothing of the credential itself. */
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

function doubleVersionHint({ verdict }: JudgedAttempt, url: URL, versionPrefix: string): string | null {
  if (versionPrefix === '' || (verdict.code !== 'not_found' && verdict.code !== 'not_the_api')) return null;
  if (!`${url.pathname}/`.includes(`${versionPrefix}${versionPrefix}/`)) return null;
  return (
    `The address has ${versionPrefix} twice. version_prefix adds it: leave it out of base_url and of the paths in the ` +
    "profile, or set version_prefix: '' in the profile."
  );
}

/** For a 401 that names other authentication schemes (RFC 9110, 11.6.1) than the one that was sent. */
function authSchemeHint({ verdict, answer, sent }: JudgedAttempt): string | null {
  const challenges = [answer.headers['www-authenticate'] ?? []].flat();
  const schemes = challenges.flatMap((text) => /^\s*([\w-]+)/.exec(text)?.[1] ?? []);
  if (verdict.outcome !== 'reauth' || schemes.length === 0) return null;
  const [, sentScheme = 'Bearer'] = /^([\w-]+) /.exec(sent?.headers['authorization'] ?? '') ?? [];
  if (challenges.some((text) => text.toLowerCase().includes(sentScheme.toLowerCase()))) return null;
  return `The service asks for ${shortenText(schemes.join(', '), 40)}. ${verdict.hint ?? ''}`.trimEnd();
}
