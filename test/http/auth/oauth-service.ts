import type { ServerResponse } from 'node:http';
import { type ApiAnswer, newMeter, type RequestMeter } from '../../../src/http/client.ts';
import { type ClientOptions } from '../../../src/http/create-client.ts';
import { clientFor, get, json, PAGE, serve, type Stage } from '../stage.ts';

export const AUTH = { type: 'oauth', client_id: 'client', client_secret: 'canary-secret' } as const;

export interface OauthService extends Stage {
  tokenCalls: () => Stage['seen'];
  apiCalls: () => Stage['seen'];
}

interface Behaviour {
  /** Answers the nth request for a token; by default `token-<n>` for an hour. */
  token?: (response: ServerResponse, nth: number) => void;
  /** Whether the API takes this bearer token. */
  accepts?: (token: string) => boolean;
  /** Answers every request to the API. */
  refuses?: (response: ServerResponse) => void;
}

/** A service with a token endpoint at `/oauth/token` and an API beside it. */
export async function serveOauth({ token, accepts = () => true, refuses }: Behaviour = {}): Promise<OauthService> {
  let issued = 0;
  const stage = await serve((request, response) => {
    if (request.url !== '/oauth/token') {
      if (refuses !== undefined) return refuses(response);
      return accepts(request.headers.authorization?.slice('Bearer '.length) ?? '')
        ? json(response, PAGE)
        : json(response, {}, 401);
    }
    issued += 1;
    if (token === undefined)
      json(response, { access_token: `token-${issued}`, token_type: 'Bearer', expires_in: 3600 });
    else token(response, issued);
  });
  const of = (isToken: boolean) => () => stage.seen.filter((request) => (request.url === '/oauth/token') === isToken);
  return { ...stage, tokenCalls: of(true), apiCalls: of(false) };
}

export function tokenAnswer(response: ServerResponse, over: Record<string, unknown>): void {
  json(response, { access_token: 'token', token_type: 'bearer', ...over });
}

/** Asks the service's API for a page, by a client of its own. */
export function oauthClient(
  service: OauthService,
  over: Partial<ClientOptions> = {},
): (meter?: RequestMeter) => Promise<ApiAnswer> {
  const client = clientFor(service.origin, { auth: AUTH, ...over });
  return (meter = newMeter()) => get(client, `${service.origin}/v1/content`, meter);
}
