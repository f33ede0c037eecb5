import { readFileSync } from 'node:fs';
import { ConfigError, messageOf } from '../../model/errors.ts';
import { factsOf, spread } from './record-facts.ts';

/** Orders of listings: by (updated_at, id), or an arbitrary but stable one. */
export const SORTS = ['updated', 'none'] as const;
export type Sort = (typeof SORTS)[number];

/**
 * The records that a collection starts with, in listing order and never changed: position 0 is listed first.
 * The order is by (rank, key); both grow with the position.
 */
export interface BaseRecords {
  size: number;
  rankAt(position: number): number;
  /** Unique; the record's id, unless that is missing or occurs twice. */
  keyAt(position: number): string;
  /** Epoch milliseconds, for `updated_since`. */
  timeAt(position: number): number;
  /** The record's original JSON text. */
  textAt(position: number): Uint8Array;
  /** -1 if there is none. */
  positionOf(key: string): number;
  /** The rank of a record that is written later. */
  rankOf(key: string, time: number): number;
  /** True if the records have an `updated_at`, which the service then sets on every write. */
  stamped: boolean;
}

interface Line {
  rank: number;
  key: string;
  time: number;
  start: number;
  end: number;
}

const NEWLINE = 0x0a;

/** Reads one record per line; each keeps its own bytes. Throws ConfigError with file and line if a line is no JSON. */
export function readRecords(file: string, sort: Sort): BaseRecords {
  return recordsIn(readFileSync(file), sort, file);
}

/** A collection that starts empty. */
export function noRecords(sort: Sort): BaseRecords {
  return recordsIn(new Uint8Array(), sort, 'no records');
}

function recordsIn(bytes: Uint8Array, sort: Sort, file: string): BaseRecords {
  const rankOf = sort === 'updated' ? (_key: string, time: number) => time : spread;
  const lines = linesOf(bytes, rankOf, file).toSorted(byRankAndKey);
  const positions = new Map(lines.map((line, position) => [line.key, position]));
  const at = (position: number) => lines[position] ?? { rank: 0, key: '', time: 0, start: 0, end: 0 };
  return {
    size: lines.length,
    rankAt: (position) => at(position).rank,
    keyAt: (position) => at(position).key,
    timeAt: (position) => at(position).time,
    textAt: (position) => bytes.subarray(at(position).start, at(position).end),
    positionOf: (key) => positions.get(key) ?? -1,
    rankOf,
    stamped: lines.length === 0 || hasUpdatedAt(bytes.subarray(at(0).start, at(0).end)),
  };
}

function linesOf(bytes: Uint8Array, rankOf: (key: string, time: number) => number, file: string): Line[] {
  const lines: Line[] = [];
  const keys = new Set<string>();
  const decoder = new TextDecoder();
  let number = 0;
  for (const [start, end] of spansOf(bytes)) {
    number += 1;
    const facts = read(decoder.decode(bytes.subarray(start, end)), file, number);
    if (facts === null) continue;
    const key = facts.id === null || keys.has(facts.id) ? `${facts.id ?? ''}\u0000${number}` : facts.id;
    keys.add(key);
    lines.push({ key, time: facts.time, rank: rankOf(key, facts.time), start, end });
  }
  return lines;
}

function read(text: string, file: string, number: number): ReturnType<typeof factsOf> | null {
  if (text.trim() === '') return null;
  try {
    return factsOf(text);
  } catch (error) {
    throw new ConfigError('sandbox_data', `${file}:${number} is not a JSON value: ${messageOf(error)}`, {
      hint: 'Give one JSON record per line.',
      cause: error,
    });
  }
}

function* spansOf(bytes: Uint8Array): Generator<[number, number]> {
  let start = 0;
  while (start < bytes.length) {
    const found = bytes.indexOf(NEWLINE, start);
    const end = found === -1 ? bytes.length : found;
    yield [start, bytes[end - 1] === 0x0d && end > start ? end - 1 : end];
    start = end + 1;
  }
}

function byRankAndKey(a: Line, b: Line): number {
  if (a.rank !== b.rank) return a.rank - b.rank;
  return a.key < b.key ? -1 : 1;
}

function hasUpdatedAt(text: Uint8Array): boolean {
  return new TextDecoder().decode(text).includes('"updated_at"');
}
