import { expect, it } from 'vitest';
import { schemeFaults, signatureFields } from '../../src/source/signature-scheme.ts';

const VALID = { type: 'hmac', value: { from: 'header:x-signature' }, signed: '{body}' };

function faultsOf(given: object): string[] {
  return schemeFaults(signatureFields.parse(given)).map(({ path }) => path.join('.'));
}

it('a valid scheme has none', () => {
  expect(faultsOf(VALID)).toEqual([]);
});

it.each([
  [{ type: undefined }, 'type'],
  [{ value: {} }, 'value.from'],
  [{ value: { from: 'json:signature' } }, 'value.from'],
  [{ signed: undefined }, 'signed'],
  [{ type: 'static' }, 'signed'],
  [{ signed: '{method}' }, 'signed'],
  [{ timestamp: { from: 'header:x-time' } }, 'signed'],
  [{ signed: '{ts}.{body}' }, 'timestamp'],
  [{ signed: '{id}.{body}' }, 'id'],
  [{ signed: '{id}{body}', id: 'header:x-id' }, 'signed'],
  [{ algorithm: 'sha1' }, 'algorithm'],
  [{ type: 'hash', signed: '{secret}{body}' }, 'signed'],
  [{ signed: '{body}{secret}' }, 'signed'],
  [{ type: 'ed25519' }, 'key_encoding'],
  [{ item: 'v1' }, 'item'],
  [{ value: { from: 'header:x-signature', parse: 'kv' } }, 'item'],
  [{ also: [{ type: 'hmac' }] }, 'also'],
  [{ signed: '{part:t}{body}' }, 'value.parse'],
  [{ item: 'v1', value: { from: 'header:x-signature', parse: 'kv', prefix: 'v=' } }, 'value.prefix'],
  [{ signed: '{signed_headers}{body}' }, 'signed_headers'],
  [{ signed: '{form_sorted}' }, 'body_hash'],
  [{ families: ['webhook'] }, 'families'],
  [{ value: { from: 'header:{family}-signature' } }, 'families'],
])('%j is reported at %s', (change, field) => {
  expect(faultsOf({ ...VALID, ...change })).toContain(field);
});

it.each([
  { algorithm: 'sha1', allow_weak: true },
  { type: 'hash', signed: '{secret}{body}', allow_weak: true },
  { timestamp: { from: 'header:x-time' }, signed: '{ts}.{body}' },
  { families: ['webhook'], value: { from: 'header:{family}-signature' } },
])('%j is in order', (change) => {
  expect(faultsOf({ ...VALID, ...change })).toEqual([]);
});
