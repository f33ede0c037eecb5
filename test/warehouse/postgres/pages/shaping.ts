import type { SourceRecord } from '../../../../src/model/json.ts';
import { initialShape, shapeRecords } from '../../../../src/shape/shape-page.ts';
import { selectRecords } from '../../../../src/shape/records/select-records.ts';
import { parseJson } from '../../../../src/shape/json/parse-json.ts';
import type { BodyToShape, ShapingPlan } from '../../../../src/warehouse/page-shaper.ts';
import type { EncodedCopy, EncodedPage } from '../../../../src/warehouse/postgres/pages/encode-page.ts';
import { profileWith } from '../../../support/page-records.ts';

/** A record with a list. */
export const recordText = (at: number): string =>
  `{"id":"k${at}","updated_at":"2026-11-20T10:00:00Z","n":${at},"tags":["a","b${at}"]}`;

/** How such records become rows. */
export function planOf(history: ShapingPlan['history'] = 'all'): ShapingPlan {
  const profile = profileWith({ id: 'id', history });
  const { id, depth, json, times, max_columns, contract, fields } = profile;
  const shapedBy = { id, depth, json, times, max_columns, contract, fields };
  const records = [{ key: 'k0', value: parseJson(recordText(0)), bytes: Buffer.from(recordText(0)) }];
  const { shape } = shapeRecords({ shape: initialShape('content', profile), profile: shapedBy, records });
  return { shape, profile: shapedBy, history, fields: { id: 'id', updated: 'updated_at' }, year: 2026 };
}

/** A body of these records, and where each lies in it. */
export function bodyOf(texts: readonly string[]): BodyToShape {
  const bytes = Buffer.from(`[${texts.join(',')}]`);
  const borders: number[] = [];
  let at = 1;
  for (const text of texts) {
    const { length } = Buffer.from(text);
    borders.push(at, at + length);
    at += length + 1;
  }
  return { bytes, borders, isPlain: !bytes.includes('\\'), requestedAt: '2026-11-20 10:00:00' };
}

/** The records of a body as they are written: all new, with what is needed of each besides. */
export function writtenOf({ bytes }: BodyToShape, hashOf: (record: SourceRecord) => string) {
  const records = selectRecords(bytes, parseJson(bytes.toString()), '') ?? [];
  return records.map((record, at) => {
    const { value, bytes: source } = record;
    return { key: `k${at}`, version: 1, hash: hashOf(record), bytes: source, value };
  });
}

const sent = ({ isBinary, data }: EncodedCopy): string =>
  `${isBinary} ${data.executions} ${data.messages.toString('latin1')}`;

/** What goes to the server, by table. */
export function messagesOf({ rows, versions }: EncodedPage) {
  return { rows: rows.map((copy) => [copy.table.name, sent(copy)]), versions: versions.map(sent) };
}
