import { describe, expect, it } from 'vitest';
import { type Reply, startListing } from '../extract/listing-server.ts';
import { eitherDatabase, type TestDatabase, USUAL } from '../support/databases.ts';
import { ownService } from '../support/own-service.ts';
import { SyncError } from '../../src/model/errors.ts';
import { readItem } from '../../src/extract/read-item.ts';
import { newMeter } from '../../src/http/client.ts';
import { profileSchema } from '../../src/source/profile.ts';
import { realClient } from '../extract/real-client.ts';

const stopped = new SyncError('interrupted', 'stopped by the test', { recovery: 'stop' });

/** A page of a wiki: its text, and its links, of which one answer gives two at most. */
interface Wiki {
  text: string;
  links: string[];
}

const BATCH = 2;
const LINKS = 2;

/**
 * A wiki that lists its pages in batches; of each batch an answer gives two links of each page, and says in `done` that
 * it is whole. Its cursor says batch and place in it.
 */
async function wiki(database: TestDatabase, fields: Record<string, unknown>, tells = true) {
  const pages = new Map<string, Wiki>();
  const respond = ({ searchParams }: URL): Reply => {
    const [batch = 0, part = 0] = (searchParams.get('cursor') ?? 'b0p0').match(/\d+/g)?.map(Number) ?? [];
    const shown = [...pages].slice(batch * BATCH, (batch + 1) * BATCH);
    const isWhole = shown.every(([, { links }]) => links.length <= (part + 1) * LINKS);
    const isLast = (batch + 1) * BATCH >= pages.size;
    const data = shown.map(([id, { text, links }]) => ({
      id,
      text: part === 0 ? text : null,
      links: links.slice(part * LINKS, (part + 1) * LINKS),
    }));
    const next = isWhole ? (isLast ? null : `b${batch + 1}p0`) : `b${batch}p${part + 1}`;
    return { body: { data, ...(isWhole && tells ? { done: '' } : {}), next_cursor: next } };
  };
  const stage = await ownService(database, { updated: null, ...fields }, respond, { deletes: { max_part: 1 } });
  const rows = () =>
    stage.read((db) => {
      const read = (query: string) => db.prepare<[], { id: string; text: string; value: string }>(query).all();
      const links = read('SELECT report_id AS id, value FROM report_links ORDER BY report_id, position');
      const live = read('SELECT id, text FROM report WHERE _deleted_at IS NULL ORDER BY id');
      return live.map(({ id, text }) => [id, text, links.filter((link) => link.id === id).map(({ value }) => value)]);
    });
  const truth = () => [...pages].map(([id, { text, links }]) => [id, text, links]);
  return { stage, pages, rows, truth };
}

function fill(pages: Map<string, Wiki>): void {
  for (let id = 1; id <= 7; id += 1) {
    pages.set(`p${id}`, { text: `text ${id}`, links: Array.from({ length: id }, (_, at) => `link ${id}.${at}`) });
  }
}

describe.for(eitherDatabase(import.meta.filename))('records in parts on $name', (database) => {
  it.each([
    ['until the service says that they are whole', { parts: { complete: 'done' } }],
    ['until others follow', { parts: { complete: null } }],
  ])('are merged %s, and are equal after changes and deletes', async (_, parts) => {
    const { stage, pages, rows, truth } = await wiki(database, parts);
    fill(pages);
    expect((await stage.run('backfill')).resources[0]).toMatchObject({
      status: 'ok',
      records: 7,
      inserted: 7,
      pages: 4,
    });
    expect(await rows()).toEqual(truth());
    pages.set('p5', { text: 'changed', links: ['x', 'y', 'z', 'w', 'v'] });
    pages.set('p8', { text: 'new', links: ['1', '2', '3'] });
    pages.delete('p2');
    await stage.write("UPDATE report SET _synced_at = '2020-01-01 00:00:00.000'");
    expect((await stage.run('sync')).resources[0]).toMatchObject({ status: 'ok', inserted: 1, updated: 1, deleted: 1 });
    expect(await rows()).toEqual(truth());
    expect((await stage.run('sync')).resources[0]).toMatchObject({ status: 'ok', unchanged: 7, updated: 0 });
  });

  it('go on where a record begins after an interruption', async () => {
    const { stage, pages, rows, truth } = await wiki(database, { parts: { complete: 'done' } });
    fill(pages);
    const stop = new AbortController();
    const watcher = { page: () => stop.abort(stopped) };
    const first = await stage.run('backfill', { signal: stop.signal, watcher });
    expect(first.resources[0]?.status).toBe('interrupted');
    const asked = stage.service.requests.length;
    expect((await stage.run('backfill')).resources[0]).toMatchObject({ status: 'ok' });
    expect(stage.service.requests[asked]).toContain('cursor=b1p0');
    expect(await rows()).toEqual(truth());
  });

  it('fail the walk if the listing ends in the middle of one', async () => {
    const { stage, pages } = await wiki(database, { parts: { complete: 'done' } }, false);
    fill(pages);
    const { resources } = await stage.run('backfill');
    expect(resources[0]).toMatchObject({ status: 'failed', error: { code: 'parts_unfinished' } });
  });
});

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
  expect(await stage.read((db) => db.prepare('SELECT count(*) AS n FROM report_live').get())).toEqual({ n: 12 });
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
