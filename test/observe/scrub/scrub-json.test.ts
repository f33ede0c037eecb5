import { expect, it } from 'vitest';
import { isJson, scrubJson } from '../../../src/observe/scrub/scrub-json.ts';

const SECRETS = ['1234567890', 'correct horse'];

it.each([
  ['{"msg":"a correct horse"}', '{"msg":"a ***"}'],
  ['{"n":1234567890,"m":12}', '{"n":"***","m":12}'],
  ['{"correct horse":[1234567890]}', '{"***":["***"]}'],
  ['{"msg":"nothing"}', '{"msg":"nothing"}'],
])('%s stays JSON', (line, expected) => {
  expect(scrubJson(line, SECRETS)).toBe(expected);
});

it('the bytes of a secret are one stand-in', () => {
  const line = JSON.stringify({ key: Buffer.from('correct horse') });
  const scrubbed = scrubJson(line, SECRETS);
  expect(isJson(scrubbed)).toBe(true);
  expect(scrubbed).not.toContain('99,111,114');
});
