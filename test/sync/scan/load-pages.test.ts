import { describe, expect, it } from 'vitest';
import { DATABASES } from '../../support/databases.ts';
import { ownStage } from '../../support/own-stage.ts';
import type { OwnRecord } from '../../support/record-service.ts';

const RECORDS = 900;
const SIZE = 150;

/** Pages of them come in several pieces, and are written in a thread where there is one. */
function record(id: number, edition = 1): OwnRecord {
  const updated_at = new Date(Date.UTC(2024, 0, edition) + id * 1000).toISOString();
  return { id, updated_at, text: `No. ${id}, edition ${edition}, Grüße 😀 `.repeat(25), phone: `+${id}` };
}

const isNameless = ({ id }: OwnRecord): boolean => Number(id) % 100 === 7;

describe.for(DATABASES)('what is kept of a page on $name', { timeout: 60_000 }, (database) => {
  it('is what the service sent, byte by byte, although the memory of the page is gone', async () => {
    const ids = Array.from({ length: RECORDS }, (_, at) => at + 1);
    const first = ids.map((id) => record(id));
    const stage = await ownStage(database, first, {
      behaviour: {
        listed: (each) => (isNameless(each) ? { ...each, id: '' } : each),
        isFiltered: false,
      },
      content: {
        history: 'all',
        source_text: 'kept',
        page: { size: SIZE },
        fields: { phone: { hash: true } },
      },
      source: { hash_key: 'a key of the test, long enough', deletes: { max_part: 1 } },
    });
    const second = ids.map((id) => (id % 3 === 0 ? record(id, 2) : record(id)));
    stage.service.put(...second);
    await stage.walk();

    const isNamed = (each: OwnRecord): boolean => !isNameless(each);
    const changed = second.filter(({ id }) => Number(id) % 3 === 0);
    const sent = [...first, ...changed].filter(isNamed);
    const versions = await stage.rows('SELECT body, source_text FROM _sync_versions');
    expect(sorted(versions.map(({ source_text }) => source_text))).toEqual(
      sorted(sent.map((each) => JSON.stringify(each))),
    );
    expect(sorted(versions.map(textIn))).toEqual(sorted(sent.map(({ text }) => text)));
    const rows = await stage.rows('SELECT text FROM content');
    expect(sorted(rows.map(({ text }) => text))).toEqual(sorted(second.filter(isNamed).map(({ text }) => text)));
    const rejects = await stage.rows('SELECT body FROM _sync_rejects');
    const aside = [...first, ...changed].filter(isNameless);
    expect(sorted(rejects.map(textIn))).toEqual(sorted(aside.map(({ text }) => text)));
  });
});

function sorted(values: readonly unknown[]): string[] {
  return values.map(String).toSorted();
}

function textIn({ body }: Record<string, unknown>): unknown {
  const { text }: { text: unknown } = JSON.parse(String(body));
  return text;
}
