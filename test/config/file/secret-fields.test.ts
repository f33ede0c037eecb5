import { expect, it } from 'vitest';
import { withSecretParts } from '../../../src/config/file/secret-fields.ts';

it.each([
  ['a key as it is', 'sk_live_0815', []],
  ['a key behind the prefix of how it is written', 'whsec_MfKQ9r8GKYqrTw', ['MfKQ9r8GKYqrTw']],
  ['a password behind its user name', 'hook:open sesame:8', ['open sesame:8']],
  ['a part so short that it is found by chance', 'hook:pin', []],
  ['a path behind the host', 'https://hc-ping.com/0815-4711-uuid', ['/0815-4711-uuid']],
  [
    'a path around the name of the resource',
    'https://ping.example/token-0815/{resource}?key=token-4711',
    ['/token-0815/', '?key=token-4711'],
  ],
])('F211 no secret is written in parts either: %s', (_, secret, parts) => {
  expect(withSecretParts([secret])).toEqual([secret, ...parts]);
});
