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

/** Reads one record per line, which keeps its spelling. Throws ConfigError with file and line if a line is no JSON. */
function readRecords(file: string, sort: Sort): StartingRecords {
  const entries: Entry[] = [];
  const keys = new Set<string>();
  const lines = readFileSync(file, 'utf8')
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/);
  for (const [at, line] of lines.entries()) {
    if (line.trim() === '') continue;
    const { id, time } = read(line, `${file}:${at + 1}`);
    const key = id === null || keys.has(id) ? `${id ?? ''}\u0000${at + 1}` : id;
    keys.add(key);
    entries.push({ key, time, rank: sort === 'updated' ? time : spread(key), text: Buffer.from(line) });
  }
  entries.sort(byRankAndKey);
  const [first] = entries;
  const stamped = first === undefined || Buffer.from(first.text).includes('"updated_at"');
  return { entries, rankOf: spread, stamped };
}

function read(text: string, place: string): ReturnType<typeof factsOf> {
  try {
    return factsOf(text);
  } catch (error) {
    throw new ConfigError('sandbox_data', `${place} is not a JSON value: ${messageOf(error)}`, {
      hint: 'Give one JSON record per line.',
      cause: error,
    });
  }
}

function byRankAndKey(a: Entry, b: Entry): number {
  if (a.rank !== b.rank) return a.rank - b.rank;
  return a.key < b.key ? -1 : 1;
}
