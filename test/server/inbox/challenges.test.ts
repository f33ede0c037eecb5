import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { signatureSchema } from '../../../src/config/profile/signature-scheme.ts';
import { answerChallenge, type ChallengeAnswer } from '../../../src/server/signature/challenges.ts';

const NOW = 1_760_000_000_000;
const TOKENS = [{ value: 'app-secret' }, { value: 'my token', id: 'verify_token' }];
const GRAPH = { base: 'query-token', challenge: 'msgraph' };

interface Question {
  scheme: unknown;
  method?: string;
  path?: string;
  body?: string;
  verified?: boolean;
}

function answer({ scheme, method = 'POST', path = '/', body = '', verified = true }: Question): ChallengeAnswer | null {
  const delivery = { method, path, headers: {}, body: Buffer.from(body) };
  return answerChallenge(signatureSchema.parse(scheme), delivery, { verified, secrets: TOKENS, now: NOW });
}

const plain = (body: string): ChallengeAnswer => ({ contentType: 'text/plain', body });
const json = (value: object): ChallengeAnswer => ({
  contentType: 'application/json',
  body: JSON.stringify(value),
});

const SLACK =
  '{"token":"t","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}';
const META = '/w?hub.mode=subscribe&hub.challenge=1158201444&hub.verify_token=my%20token';
const ZOOM = '{"event":"endpoint.url_validation","payload":{"plainToken":"qgg8vlvZRS6UYooatFL8Aw"}}';
const encryptedToken = createHmac('sha256', 'app-secret').update('qgg8vlvZRS6UYooatFL8Aw').digest('hex');
const GRAPH_TOKEN = 'Validation: Testing client application reachability for subscription Request-Id: 522a8e7e-096a';

const BOX = { base: 'github', challenge: { method: 'GET', echo: 'query:challenge' } };
const HOOK = { method: 'POST', where: { 'json:event': 'ping' }, echo: 'json:data.nonce', field: 'nonce' };
const OTHER = { base: 'github', challenge: HOOK };
const SUBSCRIBER = {
  base: 'github',
  challenge: {
    method: 'GET',
    where: { 'query:hub.mode': '*subscribe' },
    echo: 'query:hub.challenge',
    token: 'query:tok',
  },
};

describe('declared challenges', () => {
  it.for<[string, Question, ChallengeAnswer | null]>([
    ['a query, as text', { scheme: BOX, method: 'GET', path: '/?challenge=a%20b', verified: false }, plain('a b')],
    ['with mark-up', { scheme: BOX, method: 'GET', path: '/?challenge=%3Cb%3E' }, null],
    ['a body, as JSON', { scheme: OTHER, body: '{"event":"ping","data":{"nonce":"n1"}}' }, json({ nonce: 'n1' })],
    ['a delivery with such a field', { scheme: OTHER, body: '{"event":"post","data":{"nonce":"n1"}}' }, null],
    [
      'one that must be signed and is not',
      {
        scheme: { base: 'github', challenge: { ...HOOK, signed: true } },
        body: '{"event":"ping","data":{"nonce":"n1"}}',
        verified: false,
      },
      null,
    ],
    [
      'the right token',
      { scheme: SUBSCRIBER, method: 'GET', path: '/?hub.mode=unsubscribe&hub.challenge=7&tok=my%20token' },
      plain('7'),
    ],
    [
      'a wrong token',
      { scheme: SUBSCRIBER, method: 'GET', path: '/?hub.mode=subscribe&hub.challenge=7&tok=app-secret' },
      null,
    ],
  ])('%s', ([, question, expected]) => {
    expect(answer(question)).toEqual(expected);
  });

  it('of bodies must be told from deliveries', () => {
    const challenge = { method: 'POST', echo: 'json:challenge' };
    const { error } = signatureSchema.safeParse({ base: 'github', challenge });
    expect(error?.message).toContain('expected values that tell the question from a delivery');
  });
});

describe('challenges', () => {
  it.for<[string, Question, ChallengeAnswer | null]>([
    ['Slack', { scheme: 'slack', body: SLACK }, plain('3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P')],
    ['Discord', { scheme: 'discord', body: '{"type":1}' }, json({ type: 1 })],
    ['Meta', { scheme: 'meta', method: 'GET', path: META, verified: false }, plain('1158201444')],
    [
      'Meta, the secret itself',
      { scheme: 'meta', method: 'GET', path: META.replace('my%20token', 'app-secret') },
      null,
    ],
    ['Graph', { scheme: GRAPH, path: `/?validationToken=${encodeURIComponent(GRAPH_TOKEN)}` }, plain(GRAPH_TOKEN)],
    ['Zoom', { scheme: 'zoom', body: ZOOM }, json({ plainToken: 'qgg8vlvZRS6UYooatFL8Aw', encryptedToken })],
    ['Zoom, not signed', { scheme: 'zoom', body: ZOOM, verified: false }, null],
    ['a scheme without a challenge', { scheme: 'github', body: SLACK }, null],
  ])('F184 %s', ([, question, expected]) => {
    expect(answer(question)).toEqual(expected);
  });

  const unsafe = ['<script>alert(1)</script>', 'a&b', '"', "'", 'x\r\nSet-Cookie: a=b', '', 'x'.repeat(513), 'é', '\0'];

  it.each(unsafe)('F184 never send %j back', (text) => {
    const encoded = encodeURIComponent(text);
    expect(answer({ scheme: GRAPH, path: `/?validationToken=${encoded}` })).toBeNull();
    expect(answer({ scheme: 'meta', method: 'GET', path: META.replace('1158201444', encoded) })).toBeNull();
    expect(answer({ scheme: 'slack', body: JSON.stringify({ type: 'url_verification', challenge: text }) })).toBeNull();
    const payload = { event: 'endpoint.url_validation', payload: { plainToken: text } };
    expect(answer({ scheme: 'zoom', body: JSON.stringify(payload) })).toBeNull();
  });
});
