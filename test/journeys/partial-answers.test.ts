import { describe, expect, it } from 'vitest';
import { readItem } from '../../src/pagination/read-item.ts';
import { newMeter } from '../../src/http/client.ts';
import { profileSchema } from '../../src/config/profile/profile.ts';
import { startListing } from '../pagination/listing-server.ts';
import { realClient } from '../pagination/real-client.ts';
import { USUAL } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';

const NEVER = new AbortController().signal;
const RECORDS = Array.from({ length: 12 }, (_, at) => ({
  id: String(at + 1),
  updated: `2026-01-${10 + at}T00:00:00Z`,
}));

/** A service of which a part is away: what that has is missing, in a success that says so besides. */
function halfAway(says: object, profile: Record<string, unknown> = {}) {
  const state = { isAway: true };
  const respond = () => ({
    body: { data: state.isAway ? RECORDS.slice(0, 8) : RECORDS, next_cursor: null, ...(state.isAway ? says : {}) },
  });
  const stage = ownService(USUAL, { updated: 'updated', incremental: null, ...profile }, respond);
  return stage.then((opened) => ({ ...opened, state }));
}

describe('an answer that is a success with a part of the records', () => {
  it.each([
    ['errors', { errors: [{ message: 'shard 2 is away' }] }, 'error_in_body', /shard 2 is away/],
    ['a flag', { incomplete_results: true }, 'partial_answer', /leaves something out: incomplete_results/],
  ])('is no page of the listing, told by %s', async (_what, says, code, message) => {
    const stage = await halfAway(says);
    const report = await stage.run('backfill');
    expect(report).toMatchObject({ status: 'failed', resources: [{ error: { code } }] });
    expect(report.resources[0]?.error?.message).toMatch(message);
    await isCopiedOnce(stage);
  });

  it('proves no end where it says that it was cut off', async () => {
    const stage = await halfAway({ truncated: true });
    const report = await stage.run('backfill');
    expect(report).toMatchObject({ status: 'partial' });
    expect(report.resources[0]?.warnings).toContainEqual(expect.objectContaining({ code: 'end_unproved' }));
    await isCopiedOnce(stage);
  });
});

async function isCopiedOnce(stage: Awaited<ReturnType<typeof halfAway>>): Promise<void> {
  stage.state.isAway = false;
  expect(await stage.run('backfill')).toMatchObject({ status: 'ok' });
  expect(await stage.one('SELECT count(*) AS n FROM report_live')).toEqual({ n: 12 });
}

describe('a record that is read alone', () => {
  it('is refused with an error beside it', async () => {
    const errors = [{ message: 'its body is away' }];
    await expect(read({ data: { id: '1', body: null }, errors }, 'data')).rejects.toMatchObject({
      code: 'error_in_body',
    });
  });

  it('may have a field of that name', async () => {
    const record = { id: '1', errors: ['of the record'], partial: true };
    expect(await read(record, '')).toMatchObject({ isThere: true, record: { value: record } });
    expect(await read({ data: record }, 'data')).toMatchObject({ isThere: true, record: { value: record } });
  });
});

/** The record `1` from this body of an answer. */
async function read(body: object, item_record: string) {
  const { url } = await startListing(() => ({ body }));
  const profile = profileSchema.parse({
    resources: { content: { path: '/content', page: { style: 'cursor' }, item: '/content/{id}', item_record } },
  }).resources['content'];
  if (profile === undefined) throw new Error('no such resource');
  const client = realClient(url, profile.page);
  const source = { client, listing: { baseUrl: url, prefix: '' }, profile, meter: newMeter(), signal: NEVER };
  return readItem(source, '1', 'refetch');
}
