import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { json } from '../http/stage.ts';
import { ownService, type OwnService } from './own-service.ts';
import { sampled } from '../support/length.ts';

/** Keys that are words, or figures, of what we say. */
const SHORT = ['a', 'the', 'id', '1', '401', 'failed', 'posts', 'Bearer'];

/** In the short form each has a part of the keys. */
const STATUSES = [200, 401, 404];

function serviceWith(key: string, answer: (request: IncomingMessage, response: ServerResponse) => void) {
  return ownService(answer, { source: { auth: { type: 'api_key', key } } });
}

/** What it said, without what is another one each time: port, folder, times. */
async function toldBy(service: OwnService): Promise<string> {
  const told = [await service.check(), await service.backfill(), await service.backfill('--json')];
  return told
    .map(({ code, text }) => `${code} ${text}`)
    .join('\n')
    .replaceAll(/127\.0\.0\.1:\d+|sqlite:\S+|\d{8}T\d{6}Z-\w+/g, '…')
    .replaceAll(/"seconds":[\d.]+|, \d+s$|within \d+ s$/gm, '…');
}

describe('a secret that is as short as a word', () => {
  it.each(STATUSES)('takes no word and no figure out of what we say of a %i', async (status) => {
    const keys = sampled(SHORT, 3, STATUSES.indexOf(status));
    const body = status === 200 ? { data: [{ id: '1' }], next_cursor: null } : '';
    const answer = (_: unknown, response: ServerResponse): void => json(response, body, status);
    const usual = await toldBy(await serviceWith('a-key-that-is-no-word', answer));
    expect(usual).toMatch(/"requests":1,/);
    for (const key of keys) expect(await toldBy(await serviceWith(key, answer))).toBe(usual);
  });

  it('is taken out of what an answer says', async () => {
    const service = await serviceWith('hunter2', (_, response) => json(response, 'no hunter2 here', 403));
    const { text } = await service.backfill();
    expect(text).toContain('answered 403: the credential has no permission for this: no *** here');
  });

  it('does not keep a walk from going on where it was', async () => {
    let isDown = true;
    const tokens = ['', 'two', 'three', 'four'];
    const service = await serviceWith('cursor', ({ url = '' }, response) => {
      const page = tokens.indexOf(new URL(url, 'http://localhost').searchParams.get('cursor') ?? '');
      if (page === 2 && isDown) json(response, '', 503);
      else json(response, { data: [{ id: String(page) }], next_cursor: tokens[page + 1] ?? null });
    });
    expect((await service.backfill()).code).toBe(1);
    isDown = false;
    const before = service.seen.length;
    expect((await service.backfill()).code).toBe(0);
    expect(service.seen.slice(before).map(({ url }) => url)).toEqual([
      '/v1/posts?limit=2&cursor=three',
      '/v1/posts?limit=2&cursor=four',
    ]);
  });
});
