import { createHmac } from 'node:crypto';
import { Digits, type Value } from '../world/json-value.ts';
import type { AuthVariant } from './dialect.ts';
import { type Answer, type Asked, jsonIn, refused, textAt } from './service.ts';

const SECRET = 'q7Zr-the-right-one-41';
const OTHER = 'p3Xw-the-second-one-52';
const HEX_SECRET = '8f1d3c5b7a9e0f2d4c6b8a1e3d5f7092';

/** A door that lets in who shows the right credential, and answers 401 to others. */
const showing =
  (isRight: (asked: Asked) => boolean): AuthVariant['door'] =>
  () =>
  (asked) =>
    isRight(asked) ? null : refused(401, 'who are you?');

const header = (asked: Asked, name: string): string => String(asked.headers[name.toLowerCase()] ?? '');

/** How a service wants to be logged in to. The first one is that of a profile that says nothing. */
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
    name: 'key with a prefix',
    settings: { type: 'api_key', key: SECRET },
    profile: () => ({
      service: { auth: { type: 'api_key', in: 'header', name: 'Authorization', prefix: 'Token token=' } },
    }),
    door: showing((asked) => header(asked, 'authorization') === `Token token=${SECRET}`),
  },
  {
    name: 'key in the query',
    settings: { type: 'api_key', key: SECRET },
    profile: () => ({ service: { auth: { type: 'api_key', in: 'query', name: 'api[key]' } } }),
    door: showing(({ url }) => url.searchParams.get('api[key]') === SECRET),
  },
  {
    name: 'two headers',
    settings: { type: 'headers', headers: { 'X-App-Id': OTHER, 'X-Rest-Key': SECRET } },
    profile: () => ({ service: { auth: { type: 'headers', names: ['X-App-Id', 'X-Rest-Key'] } } }),
    door: showing((asked) => header(asked, 'x-app-id') === OTHER && header(asked, 'x-rest-key') === SECRET),
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
    door: (lifeMs) => tokenDoor(lifeMs, '/oauth/token', isOauthClient, oauthAnswer),
  },
  {
    name: 'jwt',
    settings: { type: 'jwt', key: `kid-7:${HEX_SECRET}` },
    profile: () => ({
      service: {
        auth: {
          type: 'jwt',
          algorithm: 'HS256',
          key_encoding: 'hex',
          key_format: 'id:secret',
          header: { kid: '{key_id}' },
          claims: { aud: '/admin/' },
          lifetime: '5m',
          prefix: 'Cms',
        },
      },
    }),
    door: showing(isSignedWell),
  },
  {
    name: 'session',
    settings: { type: 'session', username: 'robot', password: SECRET },
    profile: () => ({
      service: {
        auth: {
          type: 'session',
          login: { path: '/auth/login', body: { email: '{username}', password: '{password}' } },
          token: 'data.access_token',
          expires: { field: 'data.expires_ms', unit: 'ms' },
        },
      },
    }),
    door: (lifeMs) => tokenDoor(lifeMs, '/auth/login', isLogin, sessionAnswer),
  },
];

/** A service that gives out tokens which live for a while. */
function tokenDoor(
  lifeMs: number,
  path: string,
  isRight: (asked: Asked) => boolean,
  answerOf: (token: string, lifeMs: number) => Answer,
): (asked: Asked) => Answer | null {
  const tokens = new Map<string, number>();
  return (asked) => {
    if (asked.url.pathname.endsWith(path)) {
      if (asked.method !== 'POST' || !isRight(asked)) return refused(401, 'who are you?');
      const token = `token-${tokens.size + 1}-${SECRET}`;
      tokens.set(token, asked.now + lifeMs);
      return answerOf(token, lifeMs);
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

function isLogin({ text }: Asked): boolean {
  const body = jsonIn(text);
  return textAt(body, 'email') === 'robot' && textAt(body, 'password') === SECRET;
}

function sessionAnswer(token: string, lifeMs: number): Answer {
  const data = new Map<string, Value>([
    ['access_token', token],
    ['expires_ms', new Digits(lifeMs)],
  ]);
  return { status: 200, body: new Map([['data', data]]) };
}

function isSignedWell(asked: Asked): boolean {
  const [scheme, token = ''] = header(asked, 'authorization').split(' ');
  const [head = '', claims = '', signature = ''] = token.split('.');
  const wanted = createHmac('sha256', Buffer.from(HEX_SECRET, 'hex')).update(`${head}.${claims}`).digest('base64url');
  if (scheme !== 'Cms' || signature !== wanted) return false;
  const kid = textAt(jsonIn(Buffer.from(head, 'base64url').toString()), 'kid');
  const said = jsonIn(Buffer.from(claims, 'base64url').toString());
  const until = Number(textAt(said, 'exp') ?? 0) * 1_000;
  return kid === 'kid-7' && textAt(said, 'aud') === '/admin/' && until > asked.now && until <= asked.now + 600_000;
}
