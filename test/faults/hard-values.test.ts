import { describe, expect, it } from 'vitest';
import { bodiesIn, columnsOf, endsOf, list, onStage, quoted, record } from './stage.ts';

const GOOD = [0, 1, 2].map((second) => record(`good-${second}`, { title: 'good' }, second));

describe('values that are hard to keep', () => {
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
