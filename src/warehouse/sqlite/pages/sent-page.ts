import type { TableShape } from '../../../model/table.ts';
import type { PageRows, WrittenRecord } from '../../warehouse.ts';
import type { LeaseValues } from './lease-check.ts';
import type { WrittenPage } from './write-page.ts';

/** What the thread that writes pages is asked. */
export interface WriteRequest {
  id: number;
  /** Null for the page of that id, which it has already: the file was locked. */
  page: SentPage | null;
  lease: LeaseValues;
}

/** A page as it crosses to the thread that writes it. */
export interface SentPage
  extends Pick<PageRows, 'resource' | 'history' | 'requestedAt'>, Pick<WrittenPage, 'statements'> {
  /** Tables that the thread does not know yet, or not as they are now. */
  shapes: readonly TableShape[];
  rows: readonly { table: string; width: number; cells: PageRows['rows'][number]['cells'] }[];
  /** Names of the child tables. */
  children: readonly string[];
  keys: readonly string[];
  versions: readonly number[];
  hashes: readonly string[];
  /** The sources of all records, one after the other, and where each of them ends. */
  bodies: ArrayBuffer;
  ends: readonly number[];
}

/** Returns what packs pages for a thread: tables are sent once, and again when they have changed. */
export function pagePacker(): (page: WrittenPage) => SentPage {
  const sent = new Map<string, TableShape>();
  const isNew = (table: TableShape): boolean => {
    if (sent.get(table.name) === table) return false;
    sent.set(table.name, table);
    return true;
  };
  return ({ rows: { resource, history, requestedAt, rows, children, records }, statements }) => {
    // No body is stored without a history.
    const { bodies, ends } = joined(history === 'none' ? [] : records);
    return {
      resource,
      history,
      requestedAt,
      shapes: [...rows.map(({ table }) => table), ...children].filter(isNew),
      rows: rows.map(({ table: { name }, width, cells }) => ({ table: name, width, cells })),
      children: children.map(({ name }) => name),
      keys: records.map(({ key }) => key),
      versions: records.map(({ version }) => version),
      hashes: records.map(({ hash }) => hash),
      bodies,
      ends,
      statements: statements.map(({ sql, parameters }) => ({ sql, parameters })),
    };
  };
}

/** Returns what makes pages again of what one packer has packed, in its order. */
export function pageUnpacker(): (sent: SentPage) => WrittenPage {
  const known = new Map<string, TableShape>();
  const shapeOf = (name: string): TableShape => {
    const shape = known.get(name);
    if (shape === undefined) throw new Error(`a page of a table that was not sent: ${name}`);
    return shape;
  };
  return ({ shapes, rows, children, statements, resource, history, requestedAt, ...sent }) => {
    for (const shape of shapes) known.set(shape.name, shape);
    const page: PageRows = {
      resource,
      history,
      requestedAt,
      rows: rows.map(({ table, width, cells }) => ({ table: shapeOf(table), width, cells })),
      children: children.map(shapeOf),
      records: recordsOf(sent),
    };
    return { rows: page, statements };
  };
}

function joined(records: readonly WrittenRecord[]): Pick<SentPage, 'bodies' | 'ends'> {
  let size = 0;
  const ends = records.map(({ bytes }) => (size += bytes.length));
  // With memory of its own, which can be handed over.
  const bodies = new ArrayBuffer(size);
  const all = Buffer.from(bodies);
  records.forEach(({ bytes }, at) => all.set(bytes, (ends[at] ?? 0) - bytes.length));
  return { bodies, ends };
}

function recordsOf({
  keys,
  versions,
  hashes,
  bodies,
  ends,
}: Pick<SentPage, 'keys' | 'versions' | 'hashes' | 'bodies' | 'ends'>): WrittenRecord[] {
  let start = 0;
  return keys.map((key, at) => {
    const end = ends[at] ?? 0;
    const bytes = Buffer.from(bodies, start, end - start);
    start = end;
    return { key, version: versions[at] ?? 0, hash: hashes[at] ?? '', bytes };
  });
}
