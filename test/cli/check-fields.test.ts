import { expect, it } from 'vitest';
import { journey } from '../support/journey.ts';

const RECORDS = { content: 60, images: 10, analytics: 60 };

it('check tells of hidden fields that no record has', async () => {
  const fields = {
    title: { description: 'x' },
    body: { exclude: true },
    'authors.handle': { hash: true },
    'author.mail': { hash: true },
    wordcount: { unit: 'words' },
  };
  const stage = await journey({
    sandbox: { generate: RECORDS },
    profile: {
      resources: {
        content: { fields },
      },
    },
    source: { hash_key: 'a-key-of-the-source' },
  });
  const { code, stdout } = await stage.command('check');
  expect(code).toBe(0);
  const told = stdout.split('\n').filter((line) => / fields: /.test(line));
  expect(told).toEqual(['  warn  content fields: fields names author.mail, which no record on the page has']);
  expect(stdout).toContain('under another name it is copied as it is');
});
