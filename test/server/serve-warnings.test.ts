import { expect, it } from 'vitest';
import { serveWarnings } from '../../src/server/serve-warnings.ts';

const SERVE = { host: '127.0.0.1', port: 8080, hosts: [] };
const AUTH = { user: 'operator', password: 'x'.repeat(12) };

it.each([
  ['127.0.0.1', undefined, 0],
  ['127.8.8.8', undefined, 0],
  ['localhost', undefined, 0],
  ['::1', undefined, 0],
  ['0.0.0.0', undefined, 1],
  ['::', undefined, 1],
  ['192.168.1.5', undefined, 1],
  ['127.0.0.1.example.com', undefined, 1],
  ['0.0.0.0', AUTH, 0],
])('an address of %s with the password %o is told of %d times', (host, auth, count) => {
  const serve = auth === undefined ? { ...SERVE, host } : { ...SERVE, host, auth };
  expect(serveWarnings(serve, [], 0).map(({ hint }) => hint.includes('serve.auth'))).toEqual(Array(count).fill(true));
});

it.each([
  ['x'.repeat(11), 1],
  ['x'.repeat(12), 0],
])('a password like %s is told of %d times', (password, count) => {
  const serve = { ...SERVE, auth: { user: 'operator', password } };
  expect(serveWarnings(serve, [], 0).map(({ hint }) => hint.includes('password'))).toEqual(Array(count).fill(true));
});
