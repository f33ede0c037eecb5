import { portOf } from './port-of.ts';
import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';

/** What a service does with the credential that it was sent. */
type Echo = (secret: string, request: IncomingMessage, response: ServerResponse) => void;

const JSON_TYPE = { 'content-type': 'application/json' };
const HTML_TYPE = { 'content-type': 'text/html; charset=utf-8' };
const PROBLEM = { 'content-type': 'application/problem+json' };

/** Ways in which a service gives back a credential; each is the path of a resource. */
export const ECHOES: Readonly<Record<string, Echo>> = {
  'refusal-body': plain(401, PROBLEM, (secret) => JSON.stringify({ title: `unknown key ${secret}`, key: secret })),
  'refusal-challenge': (secret, _, response) =>
    response.writeHead(401, { 'www-authenticate': `Bearer realm="${secret}", error="invalid_token"` }).end(),
  'forbidden-base64': plain(403, JSON_TYPE, (secret) =>
    JSON.stringify({ got: Buffer.from(`x:${secret}`).toString('base64') }),
  ),
  'failure-url': plain(500, { 'content-type': 'text/plain' }, (secret) => `key=${encodeURIComponent(secret)}&x=1`),
  'request-id': (secret, _, response) =>
    response.writeHead(400, { ...PROBLEM, 'x-request-id': secret }).end('{"title":"bad"}'),
  'web-page': plain(200, HTML_TYPE, page),
  'error-page': plain(502, HTML_TYPE, page),
  'missing-page': plain(404, HTML_TYPE, page),
  'cut-json': plain(200, JSON_TYPE, (secret) => `{"data":["${secret}`),
  'oops-json': plain(200, JSON_TYPE, (secret) => `{"data":[], oops ${secret}`),
  'no-records': plain(200, JSON_TYPE, (secret) => JSON.stringify({ [secret]: secret, error: { message: secret } })),
  'error-in-body': plain(200, JSON_TYPE, (secret) => JSON.stringify({ error: { code: secret, message: secret } })),
  'cursor-object': plain(200, JSON_TYPE, (secret) =>
    JSON.stringify({ data: [record(1)], next_cursor: { key: secret } }),
  ),
  'cursor-secret': (secret, request, response) => {
    const isFirst = !(request.url ?? '').includes('cursor=');
    const body = { data: [record(isFirst ? 1 : 2)], next_cursor: secret };
    response.writeHead(isFirst ? 200 : 500, JSON_TYPE).end(JSON.stringify(body));
  },
  'redirect-away': redirect((secret) => `http://other.invalid/?key=${encodeURIComponent(secret)}`),
  'redirect-host': redirect((secret) => `http://${Buffer.from(secret).toString('hex')}.invalid/`),
  'redirect-user': redirect((secret) => `http://user:${encodeURIComponent(secret)}@127.0.0.1/`),
  'redirect-home': (secret, request, response) => {
    const url = request.url ?? '';
    if (url.includes('moved'))
      return plain(404, PROBLEM, () => JSON.stringify({ title: `no ${url}` }))(secret, request, response);
    response
      .writeHead(302, {
        location: `${url.split('?')[0]}/moved/${encodeURIComponent(secret)}?key=${encodeURIComponent(secret)}`,
      })
      .end();
  },
  'limit-headers': (secret, _, response) =>
    response
      .writeHead(429, { ...PROBLEM, 'retry-after': secret, ratelimit: secret, 'x-ratelimit-reset': secret })
      .end(JSON.stringify({ title: `slow down, ${secret}` })),
  'long-wait': (secret, _, response) =>
    response.writeHead(429, { ...PROBLEM, 'retry-after': '86400' }).end(JSON.stringify({ title: secret })),
  'bad-http': (secret, _, response) => void response.socket?.end(`HTTP/1.1 200 OK\r\n${secret}\r\n\r\n`),
  'bad-gzip': (secret, _, response) =>
    response.writeHead(200, { ...JSON_TYPE, 'content-encoding': 'gzip' }).end(`{"data":"${secret}"}`),
  'bad-charset': plain(
    200,
    { 'content-type': 'application/json; charset=x-canary' },
    (secret) => `{"data":"${secret}"}`,
  ),
  'bad-type': (secret, _, response) => response.writeHead(200, { 'content-type': secret }).end('{}'),
  'cut-request-id': (secret, _, response) =>
    response.writeHead(400, { ...PROBLEM, 'x-request-id': `${'i'.repeat(60)}-${secret}` }).end('{"title":"bad"}'),
  'cut-cursor': (secret, request, response) => {
    const isFirst = !(request.url ?? '').includes('cursor=');
    const body = { data: [record(isFirst ? 1 : 2)], next_cursor: `${'c'.repeat(40)}-${secret}` };
    response.writeHead(isFirst ? 200 : 500, JSON_TYPE).end(JSON.stringify(body));
  },
  'cut-path': (secret, request, response) => {
    const url = request.url ?? '';
    if (url.includes('moved')) response.writeHead(404, PROBLEM).end('{"title":"gone"}');
    else
      response
        .writeHead(302, { location: `/v1/cut-path/moved/${'p'.repeat(165)}/${encodeURIComponent(secret)}` })
        .end();
  },
  'cut-message': plain(400, PROBLEM, (secret) => JSON.stringify({ title: `${'m'.repeat(175)} ${secret}` })),
  'cut-key': plain(200, JSON_TYPE, (secret) => JSON.stringify({ [`${'k'.repeat(45)} ${secret}`]: 1 })),
  'cut-value': plain(200, JSON_TYPE, (secret) => JSON.stringify({ data: `${'v'.repeat(180)} ${secret}` })),
  'gone-cursor': plain(410, PROBLEM, (secret) => JSON.stringify({ title: `cursor of ${secret} expired` })),
};

/** A content service that gives back whatever credential it is sent, each resource in its own way. */
export interface EchoingService {
  url: string;
  /** Access tokens that it has issued. */
  tokens: string[];
  close(): Promise<void>;
}

/** Starts it on a free port. Below `/token-refused` and `/token-page` its token endpoint gives back the client's secret. */
export async function startEchoingService(): Promise<EchoingService> {
  const tokens: string[] = [];
  const server = createServer((request, response) => {
    const url = request.url ?? '';
    const way = Object.keys(ECHOES).find((name) => url.startsWith(`/v1/${name}`));
    if (url.includes('/oauth/token')) void answerToken(request, response, tokens);
    else if (url.startsWith('/ping-')) response.writeHead(url.startsWith('/ping-success') ? 200 : 404).end();
    else if (way === undefined) response.writeHead(500).end();
    else ECHOES[way]?.(credentialOf(request), request, response);
  });
  const port = await portOf(server);
  return {
    url: `http://127.0.0.1:${port}`,
    tokens,
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

async function answerToken(request: IncomingMessage, response: ServerResponse, tokens: string[]): Promise<void> {
  let form = '';
  for await (const chunk of request) form += String(chunk);
  if (request.url?.startsWith('/token-refused') === true) {
    const told = { error: 'invalid_client', error_description: `no client with ${form}` };
    return void response.writeHead(401, { ...JSON_TYPE, 'x-form': form }).end(JSON.stringify(told));
  }
  if (request.url?.startsWith('/token-page') === true) return void response.writeHead(500, HTML_TYPE).end(page(form));
  const token = `${randomBytes(15).toString('base64')}/canary-token`;
  tokens.push(token);
  response
    .writeHead(200, JSON_TYPE)
    .end(JSON.stringify({ access_token: token, token_type: 'Bearer', expires_in: 3_600 }));
}

/** The key or the token alone, as a careless error message would have it. */
function credentialOf({ headers }: IncomingMessage): string {
  return (headers.authorization ?? '').replace(/^Bearer /, '');
}

function plain(
  status: number,
  headers: Record<string, string>,
  body: (secret: string, request: IncomingMessage) => string,
): Echo {
  return (secret, request, response) => response.writeHead(status, headers).end(body(secret, request));
}

function redirect(to: (secret: string) => string): Echo {
  return (secret, _, response) => response.writeHead(302, { location: to(secret) }).end();
}

function page(secret: string, request?: IncomingMessage): string {
  const all = Object.entries(request?.headers ?? {}).map(([name, value]) => `${name}: ${String(value)}`);
  return `<html><head><title>${secret}</title></head><body><h1>Debug</h1><pre>${all.join('\n')}\n${secret}</pre></body></html>`;
}

function record(id: number): object {
  return { id: `r${id}`, title: `Record ${id}`, updated_at: '2026-01-01T00:00:00Z' };
}
