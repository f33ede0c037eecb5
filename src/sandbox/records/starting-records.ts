import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, parse } from 'node:path';
import type { Clock } from '../../model/clock.ts';
import { ConfigError, messageOf } from '../../model/errors.ts';
import { NO_RECORDS, type Entry, type Sort, type StartingRecords } from './collection.ts';
import { generatedRecords } from './generated-records.ts';
import { imageFiles, type ImageFiles, pictureOf } from './image-files.ts';
import { type RecordChange, recordStore, type RecordStore } from './store.ts';
import { factsOf, spread } from './record-facts.ts';

interface DataSettings {
  /** A folder with `<resource>.ndjson` and `files/`. */
  data: string | null;
  /** Records to generate, by resource. */
  generate: Readonly<Record<string, number>>;
  sort: Sort;
  /** Milliseconds after which listings show a write. */
  visibilityLag: number;
}

/** Resources that always exist, if only empty. */
const STANDARD_RESOURCES = ['content', 'images', 'analytics'] as const;

/**
 * The store with its first records: generated if a count is given, else read from the folder, else none. `changed` is
 * called with every change. Throws ConfigError.
 */
export function openRecords(
  settings: DataSettings,
  clock: Clock,
  changed: (change: RecordChange) => void,
): RecordStore {
  const files = settings.data === null ? new Map<string, string>() : findRecordFiles(settings.data);
  const names = new Set([...STANDARD_RESOURCES, ...files.keys(), ...Object.keys(settings.generate)]);
  const bases = new Map([...names].map((name) => [checkName(name), openResource(name, files.get(name), settings)]));
  const { sort, visibilityLag: visibilityLagMs } = settings;
  return recordStore({ bases, files: openFiles(settings), sort, visibilityLagMs, clock, changed });
}

/** Image bytes from the folder's `files/`, and generated ones for generated images. */
function openFiles({ data, generate }: DataSettings): ImageFiles {
  const count = generate['images'] ?? 0;
  const isGenerated = (id: string): boolean => Number(/^img_(\d{9})$/.exec(id)?.[1] ?? count) < count;
  return imageFiles(data === null ? null : join(data, 'files'), (id) => (isGenerated(id) ? pictureOf(id) : null));
}

function openResource(name: string, file: string | undefined, { generate, sort }: DataSettings): StartingRecords {
  const count = generate[name];
  if (count !== undefined) return generatedRecords(name, count, sort);
  return file === undefined ? NO_RECORDS : readRecords(file, sort);
}

function findRecordFiles(folder: string): Map<string, string> {
  if (!existsSync(folder)) {
    throw new ConfigError('sandbox_data', `The data folder ${folder} does not exist.`, {
      hint: 'Name a folder that holds content.ndjson, images.ndjson or analytics.ndjson.',
    });
  }
  const files = readdirSync(folder).filter((file) => file.endsWith('.ndjson'));
  return new Map(files.map((file) => [parse(file).name, join(folder, file)]));
}

function checkName(name: string): string {
  if (/^[a-z][a-z0-9_-]*$/.test(name) && name !== 'webhooks') return name;
  throw new ConfigError('sandbox_data', `"${name}" cannot be the name of a resource.`, {
    hint: 'Use a lower-case name other than "webhooks".',
  });
}

const NEWLINE = 0x0a;

/** Reads one record per line; each keeps its own bytes. Throws ConfigError with file and line if a line is no JSON. */
function readRecords(file: string, sort: Sort): StartingRecords {
  const bytes = readFileSync(file);
  const rankOf = sort === 'updated' ? (_key: string, time: number) => time : spread;
  const entries = entriesIn(bytes, rankOf, file).toSorted(byRankAndKey);
  const [first] = entries;
  return { entries, rankOf: spread, stamped: first === undefined || hasUpdatedAt(first.text) };
}

function entriesIn(bytes: Uint8Array, rankOf: (key: string, time: number) => number, file: string): Entry[] {
  const entries: Entry[] = [];
  const keys = new Set<string>();
  const decoder = new TextDecoder();
  let number = 0;
  for (const [start, end] of spansOf(bytes)) {
    number += 1;
    const facts = read(decoder.decode(bytes.subarray(start, end)), file, number);
    if (facts === null) continue;
    const key = facts.id === null || keys.has(facts.id) ? `${facts.id ?? ''}\u0000${number}` : facts.id;
    keys.add(key);
    const text = bytes.subarray(start, end);
    entries.push({ key, time: facts.time, rank: rankOf(key, facts.time), text });
  }
  return entries;
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

function byRankAndKey(a: Entry, b: Entry): number {
  if (a.rank !== b.rank) return a.rank - b.rank;
  return a.key < b.key ? -1 : 1;
}

function hasUpdatedAt(text: Uint8Array): boolean {
  return new TextDecoder().decode(text).includes('"updated_at"');
}
