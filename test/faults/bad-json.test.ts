import { describe, expect, it } from 'vitest';
import { jsonSuite } from '../support/corpora.ts';
import { IS_LONG, longOrShort } from '../support/length.ts';
import {
  bodiesIn,
  endsOf,
  expectSameBodies,
  expectWholeCopy,
  list,
  onStage,
  rejectsIn,
  rowsIn,
  type Stage,
  testFaults,
} from './stage.ts';

/** One attempt: what is wrong with these bodies stays wrong. */
const once = { profile: { http: { attempts: 1, concurrency: 4 } } };

function texts(kind: string): [name: string, bytes: Buffer][] {
  return [...jsonSuite('test_parsing')].filter(([name]) => name.startsWith(kind));
}

/** In the short form every twelfth of them, and each that ends in its own way. */
function pagesOf(kind: string): [name: string, bytes: Buffer][] {
  return texts(kind).filter(([, bytes], at) => IS_LONG || at % 12 === 0 || whyNoJson(bytes) !== null);
}

/** The code of what is empty, is no valid UTF-8, or begins like a web page. */
function whyNoJson(bytes: Uint8Array): string | null {
  const text = textOf(bytes)?.replace('\ufeff', '').trim();
  if (text === undefined) return 'bad_text';
  if (text === '' || text === 'null') return 'empty_body';
  return text.startsWith('<') ? 'not_the_api' : null;
}

/** The error code with which a walk over each text as its page ends; what else is in the run must be well. */
async function codes(stage: Stage, kind: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  const queue = pagesOf(kind);
  while (queue.length > 0) {
    stage.sandbox.faults.clear();
    const under = (['content', 'analytics'] as const).flatMap((resource) => {
      const [name, text] = queue.shift() ?? [];
      if (name === undefined || text === undefined) return [];
      stage.sandbox.faults.add({ fault: 'body', resource, text });
      return [{ resource, name }];
    });
    const ended = await stage.backfill();
    const ends = endsOf(ended);
    expect([under, ends['images'], ended.code]).toEqual([under, 'ok', 3]);
    for (const { resource, name } of under) found[name] = (ends[resource] ?? '').replace('failed ', '');
  }
  return found;
}

function wrapped(name: string, bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(`{"id":"${name}","value":`), bytes, Buffer.from('}')]);
}

/** Plays with a warehouse that is full before, and checks that it is the same afterwards. */
async function aroundFullCopy(play: (stage: Stage) => Promise<void>): Promise<void> {
  await onStage(once, async (stage) => {
    await stage.backfill();
    const before = await bodiesIn(stage);
    await play(stage);
    expect(await bodiesIn(stage)).toEqual(before);
    stage.sandbox.faults.clear();
    expect((await stage.backfill()).code).toBe(0);
    await expectWholeCopy(stage);
  });
}

function textOf(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

describe('the JSON test suite as pages', () => {
  it('holds every text of the suite, whatever is sampled from it', () => {
    expect(['y_', 'n_', 'i_'].map((kind) => texts(kind).length)).toEqual([95, 188, 35]);
  });

  it('F089 accepts the 95 texts that must be accepted: they fail for not being a listing, not for their JSON', async () => {
    await aroundFullCopy(async (stage) => {
      const found = await codes(stage, 'y_');
      expect(Object.keys(found)).toHaveLength(longOrShort(95, pagesOf('y_').length));
      expect(Object.entries(found).filter(([, code]) => code !== 'bad_page')).toEqual([
        ['y_structure_lonely_null.json', 'empty_body'],
      ]);
    });
  });

  it('F089 refuses the 188 texts that must be refused, and the rest of each run goes on', async () => {
    await aroundFullCopy(async (stage) => {
      const found = await codes(stage, 'n_');
      expect(Object.keys(found)).toHaveLength(longOrShort(188, pagesOf('n_').length));
      const others = Object.entries(found).filter(([, code]) => code !== 'bad_json');
      expect(new Set(others.map(([, code]) => code))).toEqual(new Set(['bad_text', 'empty_body', 'not_the_api']));
      // What is not called bad JSON is empty, is no valid UTF-8, or begins like a web page.
      for (const [name, code] of others) {
        expect([name, code]).toEqual([name, whyNoJson(jsonSuite('test_parsing').get(name) ?? Buffer.alloc(0))]);
      }
    });
  });

  it('F090 T12 decides the 35 open cases by their encoding alone', async () => {
    await aroundFullCopy(async (stage) => {
      const found = await codes(stage, 'i_');
      expect(Object.keys(found)).toHaveLength(longOrShort(35, pagesOf('i_').length));
      for (const [name, bytes] of pagesOf('i_')) {
        expect([name, found[name]]).toEqual([name, textOf(bytes) === null ? 'bad_text' : 'bad_page']);
      }
    });
  });
});

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
  const utf16 = { rows: 16, ends: 'ok' } as const;
  testFaults([
    { title: 'F091 UTF-8 with a byte order mark', faults: [{ fault: 'encoding', as: 'bom' }], ends: 'ok' },
    {
      title: 'F091 UTF-16LE that says so',
      faults: [{ fault: 'encoding', as: 'utf-16le', charset: 'utf-16le' }],
      ...utf16,
    },
    {
      title: 'F091 UTF-16BE that says so',
      faults: [{ fault: 'encoding', as: 'utf-16be', charset: 'utf-16be' }],
      ...utf16,
    },
    {
      title: 'F091 a charset that nobody knows',
      faults: [{ fault: 'encoding', as: 'bom', charset: 'ebcdic', page: 2 }],
      ends: 'failed unsupported_charset',
      rows: 4,
    },
    {
      title: 'F091 UTF-16 that does not say so is refused, never stored as something else',
      faults: [{ fault: 'encoding', as: 'utf-16le', page: 2 }],
      ends: 'failed bad_text',
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
      expect(endsOf(await stage.backfill('content'))).toEqual({ content: 'failed bad_text' });
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
