import type { Grant as GrantName, PlanOf } from '../../source/auth.ts';
import { jwtMint } from './jwt.ts';

export type OauthPlan = PlanOf<'oauth'>;

/** The things besides the settings that a token request is made of. */
export interface GrantMaterial {
  url: URL;
  /** The refresh token of this moment. */
  refreshToken: string | null;
  /** Epoch milliseconds. */
  now: number;
}

/** One way of getting a token: its `grant_type`, and the parameters that go with it besides scope. */
interface Grant {
  type: string;
  parameters(plan: OauthPlan, material: GrantMaterial): Record<string, string>;
}

/** The grants that are known. A new one is a row here, its name in `source/auth.ts`, and its secrets there. */
export const GRANTS: Readonly<Record<GrantName, Grant>> = {
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

/** Makes the assertion; throws `ConfigError` for a key that cannot sign. */
export function assertionMint({ scheme, secrets }: OauthPlan, url: URL): (now: number) => string {
  const claims = { iss: '{client_id}', sub: '{username}', aud: '{token_url}', ...scheme.claims };
  return jwtMint({ ...scheme, claims }, secrets.key ?? '', {
    key_id: secrets.key_id ?? null,
    client_id: secrets.client_id ?? null,
    username: secrets.username ?? null,
    scope: secrets.scope ?? null,
    token_url: url.href,
  });
}
