import { describe, expect, it } from 'vitest';
import { jsonSuite } from '../support/corpora.ts';
import { bodiesIn, endsOf, expectSameBodies, list, onStage, rejectsIn, rowsIn, testFaults } from './stage.ts';

/** One attempt: what is wrong with these bodies stays wrong. */
const once = { profile: { http: { attempts: 1, concurrency: 4 } } };

function texts(kind: string): [name: string, bytes: Buffer][] {
  return [...jsonSuite('test_parsing')].filter(([name]) => name.startsWith(kind));
}

function wrapped(name: string, bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(`{"id":"${name}","value":`), bytes, Buffer.from('}')]);
}

function textOf(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

describe('the JSON test suite as values of a record', () => {
  it('F089 F090 keeps each text byte for byte, and writes nothing when it comes again', async () => {
    const all = [...texts('y_'), ...texts('i_'), ...jsonSuite('test_transform')];
    const good = all.filter(([, bytes]) => textOf(bytes) !== null && textOf(bytes)?.startsWith('\ufeff') === false);
    expect(good.length).toBeGreaterThan(120);
    const records = new Map(good.map(([name, bytes]) => [name, wrapped(name, bytes)]));
    await onStage(once, async (stage) => {
      list(stage, [...records.values()]);
      const ended = await stage.backfill('content');
      expect(endsOf(ended)).toEqual({ content: 'partial' });
      const deep = await rejectsIn(stage);
      expect(deep.map(({ reason, record_id }) => [reason, record_id])).toEqual([
        ['too_deep', 'i_structure_500_nested_arrays.json'],
      ]);
      const kept = await bodiesIn(stage);
      for (const { record_id, body } of deep) kept.set(record_id ?? '', body);
      for (const [name, bytes] of records) expect([name, kept.get(name)]).toEqual([name, bytes.toString()]);
      expect([kept.size, await rowsIn(stage)]).toEqual([records.size, records.size - 1]);

      const again = await stage.backfill('content');
      expect(again.report.resources[0]).toMatchObject({ inserted: 0, updated: 0, unchanged: records.size - 1 });
      expect(await stage.query('SELECT max(version) AS most FROM _sync_versions')).toEqual([{ most: 1 }]);
    });
  });
});

describe('a body in another encoding', () => {
  testFaults([
    { title: 'F091 UTF-8 with a byte order mark', faults: [{ fault: 'encoding', as: 'bom' }], ends: 'ok' },
    {
      title: 'F091 a charset that nobody knows',
      faults: [{ fault: 'encoding', as: 'bom', charset: 'ebcdic', page: 2 }],
      ends: 'failed unsupported_encoding',
      rows: 4,
    },
    {
      title: 'F089 JSON that is cut short',
      faults: [{ fault: 'malformed-json', page: 2 }],
      ends: 'failed bad_json',
      rows: 4,
    },
  ]);

  const umlauts = JSON.stringify({ data: [{ id: 'ä', title: 'Grüße, Ümit' }], next_cursor: null });
  it.concurrent('F091 latin-1 that says so is decoded, and refused where it does not', async () => {
    await onStage({}, async (stage) => {
      const text = Buffer.from(umlauts, 'latin1');
      stage.sandbox.faults.add({
        fault: 'body',
        resource: 'content',
        text,
        nth: 4,
        type: 'application/json; charset=iso-8859-1',
      });
      stage.sandbox.faults.add({ fault: 'body', resource: 'content', text, times: 3 });
      expect(endsOf(await stage.backfill('content'))).toEqual({ content: 'failed bad_json' });
      expect(await rowsIn(stage)).toBe(0);
      expect(endsOf(await stage.backfill('content'))).toEqual({ content: 'ok' });
      expect(await stage.query('SELECT id, title FROM content')).toEqual([{ id: 'ä', title: 'Grüße, Ümit' }]);
      stage.sandbox.faults.clear();
      stage.sandbox.store.put('content', { id: 'ä', title: 'Grüße, Ümit' });
      expect((await stage.backfill()).code).toBe(0);
      expect(await rowsIn(stage)).toBe(17);
      await expectSameBodies(stage);
    });
  });
});
