import { randomBytes } from 'node:crypto';
import type { Clock } from '../../../src/model/clock.ts';
import { RefusedRequest } from './answer.ts';

export interface OAuthClient {
  clientId: string;
  clientSecret: string;
}

interface IssuedToken {
  access_token: string;
  token_type: 'Bearer';
  /** Seconds. */
  expires_in: number;
  scope: string;
}

export type Access = ReturnType<typeof access>;

export interface AccessRules {
  apiKey: string;
  client: OAuthClient;
  /** Seconds. */
  tokenLifetime: number;
  /** A new access token ends the one before it. */
  oneToken: boolean;
}

const SCOPES = ['read', 'write'] as const;

/** Checks credentials and issues access tokens, which are kept until they have expired. */
export function access(rules: AccessRules, clock: Clock) {
  const tokens = new Map<string, { expires: number; scope: string }>();
  let { apiKey } = rules;
  const scopeOf = (credential: string): string => {
    if (credential === apiKey) return SCOPES.join(' ');
    const token = tokens.get(credential);
    if (token !== undefined && token.expires > clock.monotonic()) return token.scope;
    const description = token === undefined ? 'The credential is not known.' : 'The access token has expired.';
    throw unauthorized(description, 'error="invalid_token"');
  };
  return {
    /** Throws 401 for a missing, unknown or expired credential and 403 for one that may not write. */
    check: (authorization: string | undefined, writes: boolean): void => {
      const credential = /^bearer +(\S+)$/i.exec(authorization ?? '')?.[1];
      if (credential === undefined) throw unauthorized('Send the header "Authorization: Bearer <API key or token>".');
      const scopes = scopeOf(credential).split(' ');
      if (writes && !scopes.includes('write')) {
        throw new RefusedRequest(403, 'This credential may read, but not write.');
      }
    },
    /** True for the client's own id and secret. */
    isClient: (id: string, secret: string): boolean =>
      id === rules.client.clientId && secret === rules.client.clientSecret,
    issue: (scope: string): IssuedToken => {
      const now = clock.monotonic();
      for (const [token, { expires }] of tokens) if (rules.oneToken || expires <= now) tokens.delete(token);
      const token = `at_${randomBytes(24).toString('base64url')}`;
      tokens.set(token, { expires: now + rules.tokenLifetime * 1_000, scope });
      return { access_token: token, token_type: 'Bearer', expires_in: rules.tokenLifetime, scope };
    },
    /** Revokes the API key, and gives another. */
    changeKey: (key: string): void => {
      apiKey = key;
    },
    /** Ends every access token at once, as a service does that rotates its keys. */
    revokeTokens: (): void => {
      tokens.clear();
    },
  };
}

/** The requested scopes; all of them if none was requested, null if one does not exist. */
export function grantedScope(asked: string | null): string | null {
  const scopes = (asked ?? '').split(' ').filter((scope) => scope !== '');
  if (scopes.length === 0) return SCOPES.join(' ');
  return scopes.every((scope) => SCOPES.some((known) => known === scope)) ? scopes.join(' ') : null;
}

function unauthorized(detail: string, challenge = ''): RefusedRequest {
  return new RefusedRequest(401, detail, {
    'www-authenticate': `Bearer realm="content-sync sandbox"${challenge && `, ${challenge}`}`,
  });
}
