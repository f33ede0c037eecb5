import {
  ClientSecretBasic,
  ClientSecretPost,
  ResponseBodyError,
  WWWAuthenticateChallengeError,
  allowInsecureRequests,
  customFetch,
} from 'oauth4webapi';
import { SyncError, messageOf } from '../../model/errors.ts';
import { scrubbedSnippet, snippet } from '../body/safe-text.ts';
import type { WireAnswer, WireRequest } from '../exchange.ts';
import { judgeTokenAnswer } from '../outcome/outcome.ts';
import { GRANTS, type OauthSettings } from './grants.ts';

/** A token as the service gave it. */
export interface IssuedToken {
  value: string;
  /** Seconds; undefined if the service does not say. */
  expiresIn: number | undefined;
}

/** The address of the token endpoint, how the client proves itself there, and the function that sends the request. */
interface TokenEndpoint {
  url: URL;
  clientAuth: 'body' | 'basic';
  send: (request: WireRequest) => Promise<WireAnswer>;
}

/** `b64token` of RFC 6750, section 2.1. */
const BEARER_TOKEN = /^[A-Za-z0-9._~+/-]+=*$/;
/** Longer ones go through no usual limit on the headers of a request. */
const LONGEST_TOKEN = 16_384;

/**
 * Asks for a token with the client's own credentials. Throws `SyncError`: `token_unavailable` (retry) while the endpoint
 * fails, `auth_failed`, `bad_token` or `token_redirect` (stop) if asking again cannot help. The secret goes to the given
 * URL only: a redirect is an error.
 */
export async function requestToken(auth: OauthSettings, endpoint: TokenEndpoint): Promise<IssuedToken> {
  const server = { issuer: endpoint.url.origin, token_endpoint: endpoint.url.href };
  const client = { client_id: auth.client_id };
  const prove = endpoint.clientAuth === 'basic' ? ClientSecretBasic : ClientSecretPost;
  try {
    const grant = GRANTS.client_credentials;
    const response = await grant.ask(server, client, prove(auth.client_secret), auth, {
      [allowInsecureRequests]: endpoint.url.protocol === 'http:',
      [customFetch]: async (url, { headers, body }) =>
        usable(await endpoint.send({ url: new URL(url), method: 'POST', headers, body: String(body) }), endpoint.url),
    });
    const { access_token, expires_in } = await grant.read(server, client, response);
    return { value: bearerToken(access_token, endpoint.url), expiresIn: expires_in };
  } catch (error) {
    throw tokenError(error, endpoint.url, auth.client_secret);
  }
}

/** The answer as the library reads it; an answer that says nothing about the client throws. */
function usable(answer: WireAnswer, url: URL): Response {
  const { status, headers, bytes, failure } = answer;
  const { outcome, code, reason, hint } = judgeTokenAnswer(answer);
  if (outcome !== 'ok') {
    const isFinal = outcome === 'stop';
    const ending = status === 0 ? `failed (${failure})` : `answered ${status}${isFinal ? `, ${reason}` : ''}`;
    throw new SyncError(code, `${named(url)} ${ending}`, { recovery: isFinal ? 'stop' : 'retry', hint });
  }
  const known = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, [value].flat().join(', ')]],
  );
  return new Response(status === 204 || status === 205 ? null : new Uint8Array(bytes), { status, headers: known });
}

/** A token that is none is never sent, and never looked for in what is written. */
function bearerToken(token: string, url: URL): string {
  if (token.length <= LONGEST_TOKEN && BEARER_TOKEN.test(token)) return token;
  const fault =
    token.length > LONGEST_TOKEN
      ? `is longer than ${LONGEST_TOKEN} characters`
      : 'holds characters that no bearer token has (RFC 6750 allows letters, digits, - . _ ~ + / and = at the end)';
  throw new SyncError('bad_token', `${named(url)} gave a token that ${fault}`, {
    recovery: 'stop',
    hint: 'This is a fault of the service: report it there. Check that auth.token_url leads to its token endpoint.',
  });
}

function tokenError(error: unknown, url: URL, secret: string): unknown {
  if (error instanceof SyncError) return error;
  if (error instanceof ResponseBodyError) return refused(url, scrubbedSnippet(error.error, [secret]), error);
  if (error instanceof WWWAuthenticateChallengeError) return refused(url, `status ${error.status}`, error);
  if (error instanceof Error && 'code' in error) {
    return new SyncError('bad_token', `${named(url)} gave no token that can be used: ${snippet(messageOf(error))}`, {
      recovery: 'stop',
      hint: 'Check auth.token_url and oauth.token_path in the profile.',
      cause: withoutBody(error),
    });
  }
  return error;
}

function refused(url: URL, why: string, error: Error): SyncError {
  return new SyncError('auth_failed', `${named(url)} refused the client: ${why}`, {
    recovery: 'stop',
    hint: 'Check client_id, client_secret and scope under auth, and whether they go where the endpoint wants them: oauth.client_auth in the profile, body or basic.',
    cause: withoutBody(error),
  });
}

/** The library hangs the answer's body, and so perhaps a token, onto its errors: only the message goes on. */
function withoutBody(error: Error): Error {
  return new Error(snippet(error.message));
}

function named(url: URL): string {
  return `POST ${url.origin}${snippet(url.pathname)}`;
}
