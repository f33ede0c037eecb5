// Requests a token from the service: by an OAuth grant (`requestToken`), or by a login with user and password (`logIn`). The
// credentials (`create-credentials.ts`) call them when they have no valid token. Their errors separate a refused client,
// which a user must fix, from a token endpoint that fails for a while.
import {
  allowInsecureRequests,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  customFetch,
  genericTokenEndpointRequest,
  None,
  processGenericTokenEndpointResponse,
  ResponseBodyError,
  WWWAuthenticateChallengeError,
} from 'oauth4webapi';
import type { Grant as GrantName, SchemeOf, SchemeWithSecrets } from '../../config/profile/auth.ts';
import { fillTemplate, fillTemplates, type TemplateValues } from '../../config/profile/basic-fields.ts';
import { messageOf, SyncError } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import { parseJson } from '../../rows/json/parse-json.ts';
import { fieldAt } from '../../rows/records/as-record.ts';
import { shortenMasked, shortenText } from '../body/read-body.ts';
import type { WireAnswer, WireRequest } from '../exchange.ts';
import { judgeTokenAnswer, type OutcomeVerdict } from '../outcome/outcome-table.ts';
import type { IssuedToken } from './credentials.ts';
import { jwtMint } from './jwt.ts';

/** Longer tokens exceed the usual limits on request headers. */
const MAX_TOKEN_LENGTH = 16_384;

/** The endpoint of a token request, and what the request needs besides the settings. */
interface TokenEndpoint {
  url: URL;
  /** The current refresh token. */
  refreshToken: string | null;
  /** Epoch milliseconds. */
  now: number;
  send: (request: WireRequest) => Promise<WireAnswer>;
}

/** `b64token` of RFC 6750, section 2.1. */
const BEARER_TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;

/**
 * Requests a token by the grant of the profile. Throws `SyncError`: `unreachable` (retry) while the endpoint fails;
 * `auth_failed` or `bad_token` (stop) if a retry cannot help. Follows no redirect, so that the secrets go to this URL only.
 */
export async function requestToken(plan: OauthPlan, endpoint: TokenEndpoint): Promise<IssuedToken> {
  const { scheme, secrets } = plan;
  const { url } = endpoint;
  const server = { issuer: url.origin, token_endpoint: url.href };
  const client = { client_id: secrets.client_id ?? NO_CLIENT };
  const grant = GRANTS[scheme.grant];
  const scope = secrets.scope === undefined ? {} : { scope: secrets.scope };
  const parameters = { ...scope, ...scheme.parameters, ...grant.parameters(plan, endpoint) };
  try {
    const response = await genericTokenEndpointRequest(server, client, clientAuth(plan), grant.type, parameters, {
      [allowInsecureRequests]: url.protocol === 'http:',
      [customFetch]: async (to, { headers, body }) =>
        toResponse(await endpoint.send({ url: new URL(to), method: 'POST', headers, body: String(body) }), url),
    });
    const read = await processGenericTokenEndpointResponse(server, client, response);
    return { value: bearerToken(read.access_token, url), expiresIn: read.expires_in, refreshToken: read.refresh_token };
  } catch (error) {
    if (scheme.grant === 'refresh_token' && error instanceof ResponseBodyError && error.error === 'invalid_grant') {
      // By RFC 6749, section 5.2, the refresh token is invalid, expired or revoked.
      throw new SyncError('refresh_token_refused', `${endpointName(url)} refused the refresh token`, {
        recovery: 'stop',
        hint: 'It is used up, revoked or expired: get a new one from the service, and set refresh_token under auth in the settings.',
      });
    }
    throw tokenError(error, url, secretTexts(plan, endpoint));
  }
}

/** The library needs a client id, also for a grant without one. */
const NO_CLIENT = 'none';
const noClientAuth: ClientAuth = () => undefined;

/** Returns how the client authenticates at the token endpoint. */
function clientAuth({ scheme, secrets: { client_id: id, client_secret: secret } }: OauthPlan): ClientAuth {
  if (id === undefined) return noClientAuth;
  if (secret === undefined || scheme.client_auth === 'none') return None();
  return scheme.client_auth === 'basic' ? ClientSecretBasic(secret) : ClientSecretPost(secret);
}

function secretTexts({ secrets }: OauthPlan, { refreshToken }: TokenEndpoint): string[] {
  const { client_secret, password, key, refresh_token } = secrets;
  return [client_secret, password, key, refresh_token, refreshToken].filter((text) => typeof text === 'string');
}

/** Converts the answer for the library; throws for one that neither accepts nor refuses the client, such as a 503. */
function toResponse(answer: WireAnswer, url: URL): Response {
  const { status, headers, bytes } = answer;
  const verdict = judgeTokenAnswer(answer);
  if (verdict.outcome !== 'ok') throw endpointFailed(endpointName(url), answer, verdict);
  const pairs = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, [value].flat().join(', ')]],
  );
  return new Response(status === 204 || status === 205 ? null : withoutIdToken(bytes), { status, headers: pairs });
}

/** Creates the error for an answer that neither accepts nor refuses the client. */
function endpointFailed(
  from: string,
  { status, failure }: WireAnswer,
  { outcome, code, reason, hint }: OutcomeVerdict,
): SyncError {
  const isFinal = outcome === 'stop';
  const ending = status === 0 ? `failed (${failure})` : `answered ${status}, ${reason}`;
  return new SyncError(code, `${from} ${ending}`, { recovery: isFinal ? 'stop' : 'retry', hint });
}

/** Removes the id token, which is not used and which the library would validate. */
function withoutIdToken(bytes: Buffer): string | Uint8Array<ArrayBuffer> {
  if (!bytes.includes('"id_token"')) return new Uint8Array(bytes);
  try {
    const { id_token: _, ...rest } = JSON.parse(bytes.toString());
    return JSON.stringify(rest);
  } catch {
    return new Uint8Array(bytes);
  }
}

/** Returns the token if it is valid in a header; throws `bad_token` otherwise. */
function bearerToken(token: string, url: URL): string {
  if (token.length <= MAX_TOKEN_LENGTH && BEARER_TOKEN.test(token)) return token;
  throw badToken(
    `${endpointName(url)} gave a token that is longer than ${MAX_TOKEN_LENGTH} characters, or holds characters that no bearer token has (RFC 6750 allows letters, digits, - . _ ~ + / and = at the end)`,
    'This is a fault of the service: report it there. Check that auth.token_url leads to its token endpoint.',
  );
}

/** Converts an error of the library; any other error is returned as it is. */
function tokenError(error: unknown, url: URL, secrets: readonly string[]): unknown {
  if (error instanceof SyncError) return error;
  if (error instanceof ResponseBodyError) return clientRefused(url, shortenMasked(error.error, secrets), error);
  if (error instanceof WWWAuthenticateChallengeError) return clientRefused(url, `status ${error.status}`, error);
  if (!(error instanceof Error) || !('code' in error)) return error;
  const message = `${endpointName(url)} gave no token that can be used: ${shortenText(messageOf(error))}`;
  return badToken(message, 'Check auth.token_url, and token_path under auth in the profile.', withoutBody(error));
}

function clientRefused(url: URL, why: string, error: Error): SyncError {
  return new SyncError('auth_failed', `${endpointName(url)} refused the client: ${why}`, {
    recovery: 'stop',
    hint: 'Check client_id, client_secret, scope and the other secrets under auth, and whether they go where the endpoint wants them: client_auth under auth in the profile, body or basic.',
    cause: withoutBody(error),
  });
}

/** Copies only the message of an error of the library, which also has the body and so perhaps a token. */
function withoutBody(error: Error): Error {
  return new Error(shortenText(error.message));
}

function endpointName(url: URL): string {
  return `POST ${url.origin}${shortenText(url.pathname)}`;
}

type OauthPlan = SchemeWithSecrets<'oauth'>;

/** One OAuth grant. */
interface TokenGrant {
  /** `grant_type` of the request. */
  type: string;
  /** Returns the parameters besides scope. */
  parameters(plan: OauthPlan, endpoint: TokenEndpoint): Record<string, string>;
}

/** The supported grants. A new one also needs its name and its secrets in `config/profile/auth.ts`. */
const GRANTS: Readonly<Record<GrantName, TokenGrant>> = {
  /** RFC 6749, section 4.4. */
  client_credentials: { type: 'client_credentials', parameters: () => ({}) },
  /** RFC 6749, section 6. */
  refresh_token: {
    type: 'refresh_token',
    parameters: (_, { refreshToken }) => (refreshToken === null ? {} : { refresh_token: refreshToken }),
  },
  /** RFC 6749, section 4.3. */
  password: {
    type: 'password',
    parameters: ({ secrets: { username = '', password = '' } }) => ({ username, password }),
  },
  /** RFC 7523, section 2.1. */
  jwt_bearer: {
    type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
    parameters: (plan, { url, now }) => ({ assertion: assertionMint(plan, url)(now) }),
  },
};

/** Returns a function that creates the assertion; throws `ConfigError` for a key that cannot sign. */
export function assertionMint({ scheme, secrets }: OauthPlan, url: URL): (now: number) => string {
  const claims = { iss: '{client_id}', sub: '{username}', aud: '{token_url}', ...scheme.claims };
  const { key = '', key_id, client_id, username, scope } = secrets;
  return jwtMint({ ...scheme, claims }, key, { key_id, client_id, username, scope, token_url: url.href });
}

type SessionScheme = SchemeOf<'session'>;

/** The characters that are valid unescaped in each place of a request. */
const ALLOWED_CHARACTERS: Readonly<Record<SessionScheme['in'], RegExp>> = {
  header: /^[\x21-\x7e]+$/,
  cookie: /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]+$/,
  query: /^\P{Cc}+$/u,
};

/** Logs in and returns the session token. Throws `SyncError` as `requestToken` does. `now` is epoch milliseconds. */
export async function logIn(
  { scheme, secrets }: SchemeWithSecrets<'session'>,
  { url, now, send }: { url: URL; now: number; send: (request: WireRequest) => Promise<WireAnswer> },
): Promise<IssuedToken> {
  const { username = null, password = null, key = null } = secrets;
  const values = { username, password, key };
  const answer = await send(loginRequest(scheme, url, values));
  const from = `${scheme.login.method} ${url.origin}${shortenText(url.pathname)}`;
  const value = findToken(scheme, answer);
  // A login by form may set the cookie and redirect to a web page.
  const isRedirected = answer.status < 400 && scheme.token.startsWith('cookie:') && value !== null;
  const isLoggedIn = answer.failure === null && (answer.status < 300 || isRedirected);
  const verdict = judgeTokenAnswer(answer);
  if (verdict.outcome !== 'ok' && !isLoggedIn) throw endpointFailed(from, answer, verdict);
  if (answer.status >= 400) throw loginRefused(from, answer, Object.values(values));
  if (value === null) {
    throw badToken(
      `${from} gave no token at ${scheme.token}`,
      'Set token under auth in the profile to where the answer of the login has it.',
    );
  }
  if (value.length > MAX_TOKEN_LENGTH || !ALLOWED_CHARACTERS[scheme.in].test(value)) {
    throw badToken(
      `${from} gave a token that is too long for a ${scheme.in}, or holds characters that cannot stand there`,
      'Check where auth in the profile looks for the token, and where it sends it.',
    );
  }
  return { value, expiresIn: readLifetime(scheme, answer, now) / 1_000 };
}

function loginRequest({ login }: SessionScheme, url: URL, values: TemplateValues): WireRequest {
  const headers: Record<string, string> = { accept: 'application/json', 'user-agent': 'content-sync' };
  const filledHeaders = Object.entries(fillTemplates(login.headers, values, 'header'));
  for (const [name, text] of filledHeaders) headers[name.toLowerCase()] = text;
  const request = { url, method: login.method, headers };
  if (login.form !== undefined) {
    headers['content-type'] = 'application/x-www-form-urlencoded';
    return { ...request, body: new URLSearchParams(fillTemplates(login.form, values, 'query')).toString() };
  }
  if (login.body === undefined) return request;
  headers['content-type'] = 'application/json';
  return { ...request, body: JSON.stringify(fillJson(login.body, values)) };
}

/** Fills in the variables in the texts of a JSON value; a field whose variable has no value is omitted. */
function fillJson(value: unknown, values: TemplateValues): unknown {
  if (typeof value === 'string') return fillTemplate(value, values, 'body') ?? undefined;
  if (Array.isArray(value)) return value.map((part) => fillJson(part, values));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, fillJson(part, values)]));
}

/** Returns the token in the answer; null if absent. */
function findToken({ token }: SessionScheme, { headers, bytes }: WireAnswer): string | null {
  const [, location, name = ''] = /^(header|cookie):(.+)$/.exec(token) ?? [];
  if (location === 'header') return [headers[name.toLowerCase()]].flat()[0] ?? null;
  if (location === 'cookie') {
    const cookies = [headers['set-cookie'] ?? []].flat();
    const cookie = cookies.findLast((each) => each.startsWith(`${name}=`)) ?? '';
    const [value = ''] = cookie.slice(name.length + 1).split(';');
    return value.trim() || null;
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
/** A larger epoch time is in milliseconds. */
const MAX_EPOCH_SECONDS = 1e11;

/** Returns the lifetime of the token in milliseconds: that of the answer, else that of the profile. */
function readLifetime({ expires, lifetime }: SessionScheme, { bytes }: WireAnswer, now: number): number {
  if (expires === undefined) return lifetime;
  const found = jsonAt(bytes, expires.field);
  if (typeof found !== 'string' && typeof found !== 'number') return lifetime;
  const lifetimeMs = expires.unit === 'epoch' ? parseExpiry(found) - now : Number(found) * UNITS[expires.unit];
  return Number.isFinite(lifetimeMs) && lifetimeMs > 0 ? lifetimeMs : lifetime;
}

function parseExpiry(time: string | number): number {
  const number = Number(time);
  if (Number.isNaN(number)) return Date.parse(String(time));
  return number < MAX_EPOCH_SECONDS ? number * 1_000 : number;
}

function loginRefused(from: string, answer: WireAnswer, secrets: readonly (string | null)[]): SyncError {
  const texts = secrets.filter((secret) => secret !== null);
  const detail = shortenMasked(answer.bytes.toString().trim(), texts);
  const message = `${from} refused the login with ${answer.status}${detail === '' ? '' : `: ${detail}`}`;
  return new SyncError('auth_failed', message, {
    recovery: 'stop',
    hint: 'Check the secrets under auth in the settings, and login under auth in the profile.',
  });
}

function badToken(message: string, hint: string, cause?: Error): SyncError {
  return new SyncError('bad_token', message, { recovery: 'stop', hint, cause });
}
