import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { describe, expect, it, onTestFinished } from 'vitest';
import { json, listen, originOf, serveRaw } from '../http/stage.ts';
import { commandsAt, ownService, type OwnService } from './own-service.ts';

const PAGE = { data: [{ id: '1' }, { id: '2' }], next_cursor: null };

/** The hints of what a command said, one after the other. */
function hintsIn(text: string): string {
  return text
    .split('\n')
    .filter((line) => line.includes('→'))
    .join('\n');
}

describe('a body that is an array', () => {
  it('is named as what it is, with the setting that reads it', async () => {
    const service = await ownService((_, response) => json(response, PAGE.data));
    for (const { text } of [await service.check(), await service.backfill()]) {
      expect(text).toContain('Expected an array of records at data, found nothing');
      expect(hintsIn(text)).toContain("The body is itself an array of 2: set records: '' in the profile.");
      expect(text).not.toContain('no keys');
    }
  });
});

describe('a credential that the service does not take', () => {
  it.each([
    [400, 'the service refuses the request', 'Check the parameters of this resource in the profile'],
    [401, 'the credential was not accepted', 'Check auth in the configuration'],
    [403, 'the credential has no permission for this', 'Give the key or client read access to this resource'],
  ])('may be in the wrong form: %s says how it was sent and where another form goes', async (status, reason, hint) => {
    const service = await ownService((_, response) => json(response, { error: 'no x-api-key' }, status));
    const { code, text } = await service.check();
    expect(code).toBe(1);
    expect(text).toContain(`answered ${status}: ${reason}`);
    expect(hintsIn(text)).toContain(hint);
    expect(hintsIn(text)).toContain('It was sent as Authorization: Bearer');
    expect(hintsIn(text)).toContain('under auth in the profile');
  });

  it.each([
    [{ type: 'api_key', prefix: 'Token' }, 'Authorization: Token'],
    [{ type: 'api_key', in: 'query', name: 'key' }, 'the query parameter key'],
  ])('names the form of %j', async (auth, form) => {
    const service = await ownService((_, response) => json(response, {}, 401), { profile: { auth } });
    const { text } = await service.check();
    expect(hintsIn(text)).toContain(`It was sent as ${form};`);
    expect(text).not.toContain('Bearer');
  });

  it('is told what the service asks for instead, where it says so', async () => {
    const challenge = { 'www-authenticate': 'ApiKey realm="posts"' };
    const service = await ownService((_, response) => json(response, {}, 401, challenge));
    expect(hintsIn((await service.check()).text)).toContain('The service asks for ApiKey');
  });
});

/** Answers the page whose parameter has this value, and refuses all others. */
function onlyPage(param: string, value: string, status: number) {
  return ({ url = '' }: IncomingMessage, response: ServerResponse): void => {
    const asked = new URL(url, 'http://localhost').searchParams.get(param);
    if (asked === value) json(response, PAGE);
    else json(response, { error: 'there is no such page' }, status);
  };
}

describe('a page past the end that the service refuses', () => {
  it.each([
    ['page', 'page', '1', 400],
    ['offset', 'offset', '0', 422],
  ])(
    'is told as that in a listing by %s, with the setting that ends the listing before (%s %s, %s)',
    async (style, param, first, status) => {
      const service = await ownService(onlyPage(param, first, status), { resource: { page: { style, size: 2 } } });
      for (const { code, text } of [await service.check(), await service.backfill()]) {
        expect(code).toBe(1);
        expect(text).toContain(`The service refuses this page of the listing: GET ${service.origin}`);
        expect(text).toContain(`answered ${status}`);
        expect(hintsIn(text)).toMatch(/[Ss]et page\.total .* or page\.pages/);
        expect(hintsIn(text)).not.toMatch(/expire|start this resource again/);
      }
    },
  );

  it('stays an expired position in a listing by cursor', async () => {
    const service = await ownService((request, response) => {
      if (request.url?.includes('cursor') === true) json(response, { error: 'there is no such page' }, 400);
      else json(response, { ...PAGE, next_cursor: 'z' });
    });
    const { text } = await service.backfill();
    expect(text).toContain('The service does not know this page of the listing');
    expect(hintsIn(text)).toContain('Positions expire in some services');
    expect(hintsIn(text)).not.toContain('start this resource again');
  });
});

function pem(name: string): string {
  return readFileSync(new URL(`../http/certificates/${name}.pem`, import.meta.url), 'utf8');
}

/** A port that speaks https, under a certificate of a private authority. */
async function tlsOrigin(): Promise<string> {
  const server = createTlsServer({ key: pem('key'), cert: pem('good') }, (_, response) => json(response, PAGE));
  await listen(server);
  onTestFinished(() => void server.close());
  return originOf(server);
}

function asHttps(origin: string): string {
  return origin.replace('http:', 'https:');
}

/** A service that answers every request with a 400 and this text. */
function refusing(text: string): Promise<OwnService> {
  return ownService((_, response) => response.writeHead(400, { 'content-type': 'text/html' }).end(text));
}

describe('an address that leads elsewhere', () => {
  it('https on a port that speaks http is told as that, without a word about certificates', async () => {
    const { text } = await (await ownService((_, response) => json(response, PAGE), { address: asHttps })).check();
    expect(text).toContain('the port does not speak TLS');
    expect(hintsIn(text)).toContain('begin base_url with http://');
    expect(hintsIn(text)).not.toContain('certificate');
  });

  it('http on a port that speaks https is told as that, whether it hangs up, sends an alert or says so', async () => {
    const alert = await serveRaw((socket) => socket.end(Buffer.from([0x15, 3, 1, 0, 2, 2, 70])));
    const nginx = await refusing('<title>400 The plain HTTP request was sent to HTTPS port</title>');
    const go = await refusing('Client sent an HTTP request to an HTTPS server.');
    const apache = await refusing("You're speaking plain HTTP to an SSL-enabled server port.");
    for (const origin of [await tlsOrigin(), alert.origin, nginx.origin, go.origin, apache.origin]) {
      const { code, text } = await commandsAt(origin).check();
      expect(code).toBe(1);
      expect(hintsIn(text)).toMatch(/begin base_url with https:\/\//i);
    }
  });

  it('a certificate of a private authority names the variable that trusts it', async () => {
    const address = asHttps(await tlsOrigin());
    expect(hintsIn((await commandsAt(address).check()).text)).toContain('NODE_EXTRA_CA_CERTS');
  });

  it('a redirect to another origin names base_url', async () => {
    const location = 'https://elsewhere.example/v1/posts';
    const { text } = await (await ownService((_, response) => response.writeHead(302, { location }).end())).check();
    expect(hintsIn(text)).toContain('set base_url to https://elsewhere.example');
    expect(text).not.toContain('allowed');
  });

  it.each([['base_url and version_prefix', '/v1', {}, '/v1/v1/posts', '/v1']])(
    'the version twice, by %s, is named as the cause of a 404',
    async (_, below, profile, asked, twice) => {
      const options = { address: (origin: string) => `${origin}${below}`, profile };
      const { text } = await (await ownService((_request, response) => json(response, {}, 404), options)).check();
      expect(text).toContain(`${asked}?limit=2 answered 404`);
      expect(hintsIn(text)).toContain(`The address has ${twice} twice`);
      expect(hintsIn(text)).toContain('leave it out of base_url');
    },
  );
});
