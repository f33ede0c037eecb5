import { Digits, type Value } from '../world/json-value.ts';
import type { AuthVariant } from './dialect.ts';
import type { Asked } from './service.ts';
import { type Answer, refused } from './oddities.ts';

const SECRET = 'q7Zr-the-right-one-41';

/** A door that lets in who shows the right credential, and answers 401 to others. */
const showing =
  (isRight: (asked: Asked) => boolean): AuthVariant['door'] =>
  () =>
  (asked) =>
    isRight(asked) ? null : refused(401, 'who are you?');

const header = (asked: Asked, name: string): string => String(asked.headers[name.toLowerCase()] ?? '');

/** How a service wants to be logged in to: the ways that need no more of it are tried by `http/auth` and `faults`. */
export const AUTHS: readonly AuthVariant[] = [
  {
    name: 'key as bearer, nothing said',
    settings: { type: 'api_key', key: SECRET },
    profile: () => ({}),
    door: showing((asked) => header(asked, 'authorization') === `Bearer ${SECRET}`),
  },
  {
    name: 'none',
    settings: { type: 'none' },
    profile: () => ({ service: { auth: { type: 'none' } } }),
    door: () => () => null,
  },
  {
    name: 'key in a header',
    settings: { type: 'api_key', key: SECRET },
    profile: () => ({ service: { auth: { type: 'api_key', in: 'header', name: 'X-Cms-Token', prefix: '' } } }),
    door: showing((asked) => header(asked, 'x-cms-token') === SECRET),
  },
  {
    name: 'key in the query',
    settings: { type: 'api_key', key: SECRET },
    profile: () => ({ service: { auth: { type: 'api_key', in: 'query', name: 'api[key]' } } }),
    door: showing(({ url }) => url.searchParams.get('api[key]') === SECRET),
  },
  {
    name: 'basic',
    settings: { type: 'basic', username: 'robot', password: SECRET },
    profile: () => ({ service: { auth: { type: 'basic' } } }),
    door: showing(
      (asked) => header(asked, 'authorization') === `Basic ${Buffer.from(`robot:${SECRET}`).toString('base64')}`,
    ),
  },
  {
    name: 'bearer',
    settings: { type: 'bearer', token: SECRET },
    profile: () => ({ service: { auth: { type: 'bearer' } } }),
    door: showing((asked) => header(asked, 'authorization') === `Bearer ${SECRET}`),
  },
  {
    name: 'oauth with a short life',
    settings: { type: 'oauth', client_id: 'robot', client_secret: SECRET },
    profile: () => ({ service: { auth: { type: 'oauth', client_auth: 'basic' } } }),
    door: tokenDoor,
  },
];

/** A service that gives out tokens which live for a while. */
function tokenDoor(lifeMs: number): (asked: Asked) => Answer | null {
  const tokens = new Map<string, number>();
  return (asked) => {
    if (asked.url.pathname.endsWith('/oauth/token')) {
      if (asked.method !== 'POST' || !isOauthClient(asked)) return refused(401, 'who are you?');
      const token = `token-${tokens.size + 1}-${SECRET}`;
      tokens.set(token, asked.now + lifeMs);
      return oauthAnswer(token, lifeMs);
    }
    const until = tokens.get(header(asked, 'authorization').replace(/^Bearer /, ''));
    return until !== undefined && asked.now < until ? null : refused(401, 'the token has run out');
  };
}

function isOauthClient(asked: Asked): boolean {
  const [scheme, shown = ''] = header(asked, 'authorization').split(' ');
  // Both are encoded as in a form before they are joined.
  const pair = Buffer.from(shown, 'base64').toString().split(':').map(decodeURIComponent);
  const isClient = scheme === 'Basic' && pair.join(' ') === `robot ${SECRET}`;
  return isClient && new URLSearchParams(asked.text).get('grant_type') === 'client_credentials';
}

function oauthAnswer(token: string, lifeMs: number): Answer {
  const life = new Digits(Math.floor(lifeMs / 1_000));
  return {
    status: 200,
    body: new Map<string, Value>([
      ['access_token', token],
      ['token_type', 'Bearer'],
      ['expires_in', life],
    ]),
  };
}
