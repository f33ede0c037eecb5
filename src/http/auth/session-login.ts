import type { PlanOf, SchemeOf } from '../../config/profile/auth.ts';
import { fillTemplate, type TemplatePlace, type TemplateValues } from '../../config/profile/basic-fields.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { fieldAt } from '../../rows/records/as-record.ts';
import { scrubbedSnippet, snippet } from '../body/safe-text.ts';
import type { WireAnswer, WireRequest } from '../exchange.ts';
import { judgeTokenAnswer } from '../outcome/outcome-table.ts';
import type { IssuedToken } from './credentials.ts';
import { MAX_TOKEN_LENGTH, unansweredError } from './token-request.ts';

type SessionScheme = SchemeOf<'session'>;

/** The characters that each location can hold unescaped. */
const ALLOWED: Readonly<Record<SessionScheme['in'], RegExp>> = {
  header: /^[\x21-\x7e]+$/,
  cookie: /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+$/,
  query: /^\P{Cc}+$/u,
};

/**
 * Logs in. Throws `SyncError`: `token_unavailable` (retry) while the service fails, `auth_failed`, `bad_token` or
 * `token_redirect` (stop) if asking again cannot help. `now` is epoch milliseconds.
 */
export async function logIn(
  { scheme, secrets }: PlanOf<'session'>,
  { url, now, send }: { url: URL; now: number; send: (request: WireRequest) => Promise<WireAnswer> },
): Promise<IssuedToken> {
  const { username = null, password = null, key = null } = secrets;
  const values: TemplateValues = { username, password, key };
  const answer = await send(loginRequest(scheme, url, values));
  const from = `${scheme.login.method} ${url.origin}${snippet(url.pathname)}`;
  const value = tokenIn(scheme, answer);
  // A login by form may end in a redirect to a page for people.
  const isDone = answer.status < 300 || (answer.status < 400 && scheme.token.startsWith('cookie:') && value !== null);
  const verdict = judgeTokenAnswer(answer);
  if (verdict.outcome !== 'ok' && !(isDone && answer.failure === null)) throw unansweredError(from, answer, verdict);
  if (answer.status >= 400) throw loginRefused(from, answer, Object.values(values));
  if (value === null) {
    throw badToken(
      `${from} gave no token at ${scheme.token}`,
      'Set token under auth in the profile to where the answer of the login has it.',
    );
  }
  if (value.length > MAX_TOKEN_LENGTH || !ALLOWED[scheme.in].test(value)) {
    throw badToken(
      `${from} gave a token that is too long for a ${scheme.in}, or holds characters that cannot stand there`,
      'Check where auth in the profile looks for the token, and where it sends it.',
    );
  }
  return { value, expiresIn: lifetimeIn(scheme, answer, now) / 1_000 };
}

function loginRequest({ login }: SessionScheme, url: URL, values: TemplateValues): WireRequest {
  const headers: Record<string, string> = { accept: 'application/json', 'user-agent': 'content-sync' };
  for (const [name, text] of fillMap(login.headers, values, 'header')) headers[name.toLowerCase()] = text;
  const request = { url, method: login.method, headers };
  if (login.form !== undefined) {
    headers['content-type'] = 'application/x-www-form-urlencoded';
    return { ...request, body: new URLSearchParams(fillMap(login.form, values, 'query')).toString() };
  }
  if (login.body === undefined) return request;
  headers['content-type'] = 'application/json';
  return { ...request, body: JSON.stringify(fillJson(login.body, values)) };
}

function fillMap(
  map: Readonly<Record<string, string>>,
  values: TemplateValues,
  place: TemplatePlace,
): [string, string][] {
  return Object.entries(map).flatMap(([name, template]): [string, string][] => {
    const text = fillTemplate(template, values, place);
    return text === null ? [] : [[name, text]];
  });
}

/** Texts with their variables filled in; a field whose variable has no value is left out. */
function fillJson(value: unknown, values: TemplateValues): unknown {
  if (typeof value === 'string') return fillTemplate(value, values, 'body') ?? undefined;
  if (Array.isArray(value)) return value.map((part) => fillJson(part, values));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, fillJson(part, values)]));
}

/** Null if it is not there. */
function tokenIn({ token }: SessionScheme, { headers, bytes }: WireAnswer): string | null {
  const [, place, name = ''] = /^(header|cookie):(.+)$/.exec(token) ?? [];
  if (place === 'header') return [headers[name.toLowerCase()]].flat()[0] ?? null;
  if (place === 'cookie') {
    const cookies = [headers['set-cookie'] ?? []].flat();
    const cookie = cookies.findLast((each) => each.startsWith(`${name}=`)) ?? '';
    return (
      cookie
        .slice(name.length + 1)
        .replace(/;.*/s, '')
        .trim() || null
    );
  }
  const found = jsonAt(bytes, token);
  return typeof found === 'string' || typeof found === 'number' ? String(found) || null : null;
}

function jsonAt(bytes: Buffer, path: string): JsonValue | undefined {
  try {
    return fieldAt(parseJson(bytes.toString()), path);
  } catch {
    return undefined;
  }
}

const UNITS = { s: 1_000, ms: 1 };
/** Larger ones are milliseconds: as seconds they would be in the year 5138. */
const MAX_EPOCH_SECONDS = 1e11;

/** Milliseconds; the profile's lifetime if the answer has none that can be read. */
function lifetimeIn({ expires, lifetime }: SessionScheme, { bytes }: WireAnswer, now: number): number {
  const found = expires === undefined ? undefined : jsonAt(bytes, expires.field);
  if (expires === undefined || (typeof found !== 'string' && typeof found !== 'number')) return lifetime;
  const number = Number(found);
  const life = expires.unit === 'epoch' ? epochMs(found, number) - now : number * UNITS[expires.unit];
  return Number.isFinite(life) && life > 0 ? life : lifetime;
}

function epochMs(found: string | number, number: number): number {
  if (Number.isNaN(number)) return Date.parse(String(found));
  return number < MAX_EPOCH_SECONDS ? number * 1_000 : number;
}

function loginRefused(from: string, answer: WireAnswer, secrets: readonly (string | null)[]): SyncError {
  const known = secrets.filter((secret) => secret !== null);
  const said = scrubbedSnippet(answer.bytes.toString().trim(), known);
  const message = `${from} refused the login with ${answer.status}${said === '' ? '' : `: ${said}`}`;
  return new SyncError('auth_failed', message, {
    recovery: 'stop',
    hint: 'Check the secrets under auth in the settings, and login under auth in the profile.',
  });
}

function badToken(message: string, hint: string): SyncError {
  return new SyncError('bad_token', message, { recovery: 'stop', hint });
}
