import type { ServerResponse } from 'node:http';
import { json, PAGE, serve, type Stage } from '../stage.ts';

/** The moments of a token request at which something may happen to it. */
export const MOMENTS = ['asked', 'issued', 'answered'] as const;
export type Moment = (typeof MOMENTS)[number];

export interface RotatingService extends Stage {
  /** Called at each moment of each token request; true for one that goes no further, and ends without an answer. */
  at: (moment: Moment, nth: number) => boolean;
  /** Ends all tokens. */
  revoke: () => void;
  /** Token requests, and those of them that were refused. */
  tokens: () => { asked: number; refused: number };
  /** Requests for pages that were refused. */
  refusedPages: () => number;
}

/**
 * A service with an authorisation server that replaces the refresh token with each use (RFC 6749, section 6). With
 * `grace` the former one holds until the new one is used; without, it is over at once. A token that is over is refused
 * with `invalid_grant`.
 */
export async function serveRotating({
  grace,
  lifetime = 60,
}: {
  grace: boolean;
  lifetime?: number;
}): Promise<RotatingService> {
  let [issued, asked, refused, refusedPages] = [0, 0, 0, 0];
  let holding = ['refresh-0'];
  const ends = new Map<string, number>();

  function page(response: ServerResponse, authorization = ''): void {
    if ((ends.get(authorization.replace('Bearer ', '')) ?? 0) > Date.now()) return json(response, PAGE);
    refusedPages += 1;
    json(response, {}, 401, { 'www-authenticate': 'Bearer error="invalid_token"' });
  }

  function token(response: ServerResponse, sent: string | null): void {
    const nth = (asked += 1);
    if (service.at('asked', nth)) return void response.socket?.destroy();
    if (sent === null || !holding.includes(sent)) {
      refused += 1;
      return json(response, { error: 'invalid_grant' }, 400);
    }
    issued += 1;
    const next = `refresh-${issued}`;
    holding = grace ? [sent, next] : [next];
    const access = `access-${issued}`;
    ends.set(access, Date.now() + lifetime * 1_000);
    if (service.at('issued', nth)) return void response.socket?.destroy();
    json(response, { access_token: access, token_type: 'Bearer', expires_in: lifetime, refresh_token: next });
    service.at('answered', nth);
  }

  const stage = await serve((request, response) => {
    if (request.url !== '/oauth/token') return page(response, request.headers.authorization);
    token(response, new URLSearchParams(service.seen.at(-1)?.body).get('refresh_token'));
  });
  const service: RotatingService = {
    ...stage,
    at: () => false,
    revoke: () => {
      holding = [];
      ends.clear();
    },
    tokens: () => ({ asked, refused }),
    refusedPages: () => refusedPages,
  };
  return service;
}
