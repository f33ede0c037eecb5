import {
  clientCredentialsGrantRequest,
  processClientCredentialsResponse,
  type AuthorizationServer,
  type Client,
  type ClientAuth,
  type ClientCredentialsGrantRequestOptions,
  type TokenEndpointResponse,
} from 'oauth4webapi';
import type { AuthSettings } from '../../source/auth.ts';

export type OauthSettings = Extract<AuthSettings, { type: 'oauth' }>;

/** One way of getting a token: how it is asked for, and how the answer is read. Both throw the library's errors. */
interface Grant {
  ask(
    server: AuthorizationServer,
    client: Client,
    proof: ClientAuth,
    auth: OauthSettings,
    options: ClientCredentialsGrantRequestOptions,
  ): Promise<Response>;
  read(server: AuthorizationServer, client: Client, response: Response): Promise<TokenEndpointResponse>;
}

/** The grants that are known. A new one is a row here and a setting in `source/auth.ts` that names it. */
export const GRANTS = {
  /** RFC 6749, section 4.4. */
  client_credentials: {
    ask: (server, client, proof, { scope }, options) =>
      clientCredentialsGrantRequest(server, client, proof, scope === undefined ? {} : { scope }, options),
    read: processClientCredentialsResponse,
  },
} satisfies Record<string, Grant>;
