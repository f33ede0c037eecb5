import { describe, expect, it } from 'vitest';
import { bodiesIn, columnsOf, endsOf, keysIn, list, onStage, quoted, record, reportOf } from './stage.ts';

const GOOD = [0, 1, 2].map((second) => record(`good-${second}`, { title: 'good' }, second));

interface Cell {
  v: unknown;
  type: string;
}

/** Stores one record for each text, each with its value in a field of its own, and gives the cells back. */
async function storedCells(values: readonly string[], look: (cells: Cell[], bodies: boolean[]) => void): Promise<void> {
  await onStage({}, async (stage) => {
    const texts = values.map((value, at) => `{"id":"r${at}","updated_at":"2026-01-01T00:00:00Z","f${at}":${value}}`);
    list(stage, texts);
    expect(endsOf(await stage.backfill('content'))).toEqual({ content: 'ok' });
    const cells = await stage.read((db) =>
      values.map((_value, at) => {
        const cell = db.prepare<[], Cell>(
          `SELECT CAST(f${at} AS TEXT) AS v, typeof(f${at}) AS type FROM content WHERE id = 'r${at}'`,
        );
        return cell.get() ?? { v: undefined, type: 'no row' };
      }),
    );
    const bodies = await bodiesIn(stage);
    look(
      cells,
      texts.map((text, at) => bodies.get(`r${at}`) === text),
    );
    const again = await stage.backfill('content');
    expect(reportOf(again)).toMatchObject({ inserted: 0, updated: 0 });
  });
}

describe('values that are hard to keep', () => {
  it('F092 ids of twenty digits and beyond 2^53 stay apart', async () => {
    await onStage({}, async (stage) => {
      const ids = ['12345678901234567890', '12345678901234567891', '9007199254740992', '9007199254740993'];
      list(
        stage,
        ids.map((id) => `{"id":${id},"title":"long"}`),
      );
      expect(endsOf(await stage.backfill('content'))).toEqual({ content: 'ok' });
      expect(await stage.query('SELECT id FROM content ORDER BY id')).toEqual(ids.toSorted().map((id) => ({ id })));
    });
  });

  it('F094 F095 T14 a NUL and half a character show as signs in the row, and stay as they are in the body', async () => {
    await storedCells(['"a\\u0000b"', '"a\\ud800b"', '"a\\udc00"', '"\\ud83d\\ude00"'], (cells, bodies) => {
      expect(cells.map(({ v }) => v)).toEqual(['a␀b', 'a\ufffdb', 'a\ufffd', '😀']);
      expect(new Set(bodies)).toEqual(new Set([true]));
    });
  });

  const DATES = [
    '0000-00-00',
    '2026-02-30',
    '10000-01-01',
    '2026-06-30T23:59:60Z',
    '2026-01-01T24:00:00Z',
    '2026-13-01',
    'today',
  ];
  it('F072 dates that are none stay the text that came', async () => {
    await storedCells(
      DATES.map((date) => JSON.stringify(date)),
      (cells) => expect(cells.map(({ v, type }) => [v, type])).toEqual(DATES.map((date) => [date, 'text'])),
    );
  });

  it('F106 a text of 20 MB and one of 5 MB', async () => {
    const [html, base64] = [`<p>${'grün '.repeat(4_000_000)}</p>`, Buffer.alloc(3_900_000, 7).toString('base64')];
    await onStage({ profile: { http: { max_body: '64MiB' } } }, async (stage) => {
      list(stage, [...GOOD, record('big', { html, base64 })]);
      expect(endsOf(await stage.backfill('content'))).toEqual({ content: 'ok' });
      const [row] = await stage.query<{ html: string; base64: string }>(
        `SELECT html, base64 FROM content WHERE id = 'big'`,
      );
      expect([row?.html === html, row?.base64 === base64]).toEqual([true, true]);
    });
  });

  it('F102 escapes, line ends and formulas in a text are stored as they are, and no log line breaks', async () => {
    const texts = [
      '\u001b[2J\u001b]0;owned\u0007',
      'a\r\nb',
      '\u202etxt.exe',
      '=cmd()|calc!A1',
      '{"level":"error"}\n{"level":"fatal"}',
    ];
    await onStage({ logLevel: 'trace' }, async (stage) => {
      list(
        stage,
        texts.map((text, at) => record(`t${at}`, { text })),
      );
      await stage.backfill('content');
      expect(
        (await stage.query<{ text: string }>('SELECT text FROM content ORDER BY id')).map(({ text }) => text),
      ).toEqual(texts);
      stage.sandbox.faults.clear();
      const body = JSON.stringify({ title: texts.join(' ') })
        .replaceAll('\\r\\n', '\r\n')
        .replaceAll('\\u001b', '\u001b');
      stage.sandbox.faults.add({ fault: 'status', status: 400, body });
      const failed = await stage.backfill();
      expect(failed.code).toBe(1);
      for (const line of failed.stderr.trimEnd().split('\n')) expect(Object.keys(JSON.parse(line))).toContain('level');
      // oxlint-disable-next-line no-control-regex
      expect(failed.stderr + failed.stdout.replace(/\n$/, '')).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e]/);
    });
  });

  it('F098 T12 fields named like the language’s own are fields', async () => {
    const names = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'then', 'valueOf'];
    const fields = names.map((name) => `"${name}":{"polluted":"${name}"}`).join(',');
    await onStage({}, async (stage) => {
      list(stage, [`{"id":"own","updated_at":"2026-01-01T00:00:00Z",${fields}}`, ...GOOD]);
      expect(endsOf(await stage.backfill('content'))).toEqual({ content: 'ok' });
      const columns = await stage.query<{ column_name: string; source_path: string }>(
        `SELECT column_name, source_path FROM _sync_columns WHERE table_name = 'content' AND source_path LIKE '%polluted%'`,
      );
      expect(columns).toHaveLength(names.length);
      for (const { column_name, source_path } of columns) {
        const [name] = keysIn(source_path);
        expect(await stage.query(`SELECT "${column_name}" AS v FROM content WHERE id = 'own'`)).toEqual([{ v: name }]);
      }
      expect(Reflect.get({}, 'polluted')).toBeUndefined();
    });
  });

  const OF_EACH_KIND = [
    '"2026-01-02T03:04:05Z"',
    '"2026-01-02"',
    '"a text"',
    '12',
    '1.5',
    'true',
    '["2026-01-02T03:04:05Z"]',
  ];
  it.for(OF_EACH_KIND)(
    'F098 T12 fields named like the language’s own hold a %s, and so does their history',
    async (value) => {
      const names = ['__proto__', 'constructor', 'toString', 'then'];
      const fields = names.map((name) => `"${name}":${value}`).join(',');
      await onStage({}, async (stage) => {
        list(stage, [`{"id":"own","updated_at":"2026-01-01T00:00:00Z",${fields}}`, ...GOOD]);
        expect(endsOf(await stage.backfill('content'))).toEqual({ content: 'ok' });
        if (value.startsWith('[')) return;
        const columns = await columnsOf(stage);
        const held = names.map((name) => quoted(columns.get(JSON.stringify([name])) ?? ''));
        const [row] = await stage.query(`SELECT ${held.join(', ')} FROM content WHERE id = 'own'`);
        expect(Object.values(row ?? {}).filter((cell) => cell !== null)).toHaveLength(names.length);
        expect(await stage.query(`SELECT ${held.join(', ')} FROM content_history WHERE id = 'own'`)).toEqual([row]);
      });
    },
  );

  it('F099 of two equal keys the last one counts everywhere, and the body keeps both', async () => {
    await onStage({}, async (stage) => {
      const text = '{"id":"first","id":"last","updated_at":"2026-01-01T00:00:00Z","title":"one","title":"two"}';
      list(stage, [text]);
      expect(endsOf(await stage.backfill('content'))).toEqual({ content: 'ok' });
      expect(await stage.query('SELECT id, title FROM content')).toEqual([{ id: 'last', title: 'two' }]);
      expect(await bodiesIn(stage)).toEqual(new Map([['last', text]]));
    });
  });
});
