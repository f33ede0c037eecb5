import type { PlanOf, SchemeOf } from '../../config/profile/auth.ts';
import { fillTemplate, type TemplatePlace, type TemplateValues } from '../../config/profile/basic-fields.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { fieldAt } from '../../rows/records/as-record.ts';
import { scrubbedSnippet, snippet } from '../body/safe-text.ts';
import type { WireAnswer, WireRequest } from '../exchange.ts';
import { judgeTokenAnswer } from '../outcome/outcome-table.ts';
import { type IssuedToken, refuseUnfit } from './credentials.ts';

type SessionScheme = SchemeOf<'session'>;

/** The names that the templates of a login may use. */
function valuesOf({ secrets }: PlanOf<'session'>): TemplateValues {
  const { username = null, password = null, key = null } = secrets;
  return { username, password, key };
}

/**
 * Logs in. Throws `SyncError`: `token_unavailable` (retry) while the service fails, `auth_failed`, `bad_token` or
 * `token_redirect` (stop) if asking again cannot help. `now` is epoch milliseconds.
 */
export async function logIn(
  plan: PlanOf<'session'>,
  { url, now, send }: { url: URL; now: number; send: (request: WireRequest) => Promise<WireAnswer> },
): Promise<IssuedToken> {
  const { scheme } = plan;
  const values = valuesOf(plan);
  const answer = await send(loginRequest(scheme, url, values));
  const from = `${scheme.login.method} ${url.origin}${snippet(url.pathname)}`;
  const isCookie = scheme.token.startsWith('cookie:');
  const { outcome, code, reason, hint } = judgeTokenAnswer(answer);
  // A login by form may end in a redirect to a page for people.
  const isDone = answer.status < 300 || (isCookie && answer.status < 400 && tokenIn(scheme, answer) !== null);
  if (outcome !== 'ok' && !isDone) {
    const isFinal = outcome === 'stop';
    const ending = answer.status === 0 ? `failed (${answer.failure})` : `answered ${answer.status}, ${reason}`;
    throw new SyncError(code, `${from} ${ending}`, { recovery: isFinal ? 'stop' : 'retry', hint });
  }
  if (answer.status >= 400) throw refused(from, answer, Object.values(values));
  const value = tokenIn(scheme, answer);
  if (value === null) throw noToken(from, scheme.token);
  refuseUnfit(value, scheme, from);
  return { value, expiresIn: lifeOf(scheme, answer, now) / 1_000 };
}

function loginRequest({ login }: SessionScheme, url: URL, values: TemplateValues): WireRequest {
  const headers: Record<string, string> = { accept: 'application/json', 'user-agent': 'content-sync' };
  Object.assign(headers, filledMap(login.headers, values, 'header'));
  if (login.form !== undefined) {
    headers['content-type'] = 'application/x-www-form-urlencoded';
    const body = new URLSearchParams(filledMap(login.form, values, 'query')).toString();
    return { url, method: login.method, headers, body };
  }
  if (login.body === undefined) return { url, method: login.method, headers };
  headers['content-type'] = 'application/json';
  return { url, method: login.method, headers, body: JSON.stringify(filledJson(login.body, values)) };
}

function filledMap(map: Readonly<Record<string, string>>, values: TemplateValues, place: TemplatePlace) {
  const filled = Object.entries(map).flatMap(([name, template]): [string, string][] => {
    const text = fillTemplate(template, values, place);
    return text === null ? [] : [[place === 'header' ? name.toLowerCase() : name, text]];
  });
  return Object.fromEntries(filled);
}

/** Texts with their variables filled in; what has none is left as it is. */
function filledJson(value: unknown, values: TemplateValues): unknown {
  if (typeof value === 'string') return fillTemplate(value, values, 'body') ?? undefined;
  if (Array.isArray(value)) return value.map((part) => filledJson(part, values));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, filledJson(part, values)]));
}

/** Null if it is not there. */
function tokenIn({ token }: SessionScheme, answer: WireAnswer): string | null {
  const [, place, name = ''] = /^(header|cookie):(.+)$/.exec(token) ?? [];
  if (place === 'header') return [answer.headers[name.toLowerCase()]].flat()[0] ?? null;
  if (place === 'cookie') return cookieIn(answer, name);
  const found = jsonAt(answer, token);
  return typeof found === 'string' && found !== '' ? found : typeof found === 'number' ? String(found) : null;
}

function cookieIn({ headers }: WireAnswer, name: string): string | null {
  const cookies = [headers['set-cookie'] ?? []].flat();
  const found = cookies.findLast((cookie) => cookie.startsWith(`${name}=`));
  return (
    found
      ?.slice(name.length + 1)
      .split(';')[0]
      ?.trim() || null
  );
}

function jsonAt({ bytes }: WireAnswer, path: string): JsonValue | undefined {
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
function lifeOf({ expires, lifetime }: SessionScheme, answer: WireAnswer, now: number): number {
  const found = expires === undefined ? undefined : jsonAt(answer, expires.field);
  if (expires === undefined || (typeof found !== 'string' && typeof found !== 'number')) return lifetime;
  const number = Number(found);
  const life = expires.unit === 'epoch' ? momentOf(found, number) - now : number * UNITS[expires.unit];
  return Number.isFinite(life) && life > 0 ? life : lifetime;
}

function momentOf(found: string | number, number: number): number {
  if (Number.isNaN(number)) return Date.parse(String(found));
  return number < MAX_EPOCH_SECONDS ? number * 1_000 : number;
}

function refused(from: string, answer: WireAnswer, secrets: readonly (string | null)[]): SyncError {
  const known = secrets.filter((secret) => secret !== null);
  const said = scrubbedSnippet(answer.bytes.toString().trim(), known);
  const message = `${from} refused the login with ${answer.status}${said === '' ? '' : `: ${said}`}`;
  return new SyncError('auth_failed', message, {
    recovery: 'stop',
    hint: 'Check the secrets under auth in the settings, and login under auth in the profile.',
  });
}

function noToken(from: string, place: string): SyncError {
  return new SyncError('bad_token', `${from} gave no token at ${place}`, {
    recovery: 'stop',
    hint: 'Set token under auth in the profile to where the answer of the login has it.',
  });
}
