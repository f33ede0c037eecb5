import type { AnswerHeaders } from '../../http/outcome/outcome-row.ts';
import type { JsonValue } from '../../model/json.ts';
import type { CredentialForm } from './credential-form.ts';

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
