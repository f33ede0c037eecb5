// All records of the sandbox: generated, or from a folder.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, parse } from 'node:path';
import type { Clock } from '../../model/clock.ts';
import { ConfigError, messageOf } from '../../model/errors.ts';
import { Collection, type CollectionEntry } from './collection.ts';
import { generateRecords } from './generated-records.ts';
import { ImageFiles } from './image-files.ts';
import { type EventKind, listEvents, readIdAndTime } from './record-json.ts';

interface RecordSettings {
  /** A folder with `<resource>.ndjson` and `files/`. */
  data: string | null;
  /** Numbers of records to generate, by resource. */
  generate: Readonly<Record<string, number>>;
}

interface SandboxRecord {
  id: string;
  /** The exact JSON text that the service sends. */
  text: string;
}

export interface RecordChange {
  resource: string;
  kind: EventKind;
  id: string;
  /** Epoch milliseconds by which the record is sorted. */
  time: number;
}

/** Resources that always exist, even if they are empty. */
const STANDARD_RESOURCES = ['content', 'images', 'analytics'] as const;

/**
 * All records of the sandbox: generated if a number is given, else read from the folder. `changed` is called with every
 * change.
 */
export class RecordStore {
  readonly files: ImageFiles;
  readonly #collections = new Map<string, Collection>();
  readonly #clock: Clock;
  readonly #changed: (change: RecordChange) => void;

  constructor({ data, generate }: RecordSettings, clock: Clock, changed: (change: RecordChange) => void) {
    this.#clock = clock;
    this.#changed = changed;
    this.files = new ImageFiles(data === null ? null : join(data, 'files'), generate['images'] ?? 0);
    const recordFiles = data === null ? new Map<string, string>() : findRecordFiles(data);
    for (const name of new Set([...STANDARD_RESOURCES, ...recordFiles.keys(), ...Object.keys(generate)])) {
      checkName(name);
      const [count, file] = [generate[name], recordFiles.get(name)];
      const entries = file === undefined ? [] : readEntries(file);
      this.#add(name, count === undefined ? entries : generateRecords(name, count));
    }
  }

  resources(): string[] {
    return [...this.#collections.keys()];
  }

  collection(resource: string): Collection | undefined {
    return this.#collections.get(resource);
  }

  get(resource: string, id: string): SandboxRecord | null {
    const bytes = this.#collections.get(resource)?.get(id) ?? null;
    return bytes === null ? null : { id, text: decode(bytes) };
  }

  /** Lists every live record in the order of the listing. */
  *list(resource: string): Generator<SandboxRecord> {
    for (const { key, text } of this.#collections.get(resource)?.all() ?? []) yield { id: key, text: decode(text) };
  }

  /**
   * Creates or replaces a record as it is given, without setting `updated_at`. It is sorted by its own `updated_at`, or by
   * the service's clock if it has none.
   */
  put(resource: string, record: string | object): void {
    const text = typeof record === 'string' ? record : JSON.stringify(record);
    const { id } = readIdAndTime(text);
    if (id === null) throw new TypeError('A record must have an "id", a text or a number.');
    this.#write(resource, id, text);
  }

  /** Returns false if there was no such record. */
  remove(resource: string, id: string): boolean {
    if (this.get(resource, id) === null) return false;
    this.#write(resource, id, null);
    return true;
  }

  #add(resource: string, entries: readonly CollectionEntry[]): Collection {
    const [first] = entries;
    const hasUpdatedAt = first === undefined || decode(first.text).includes('"updated_at"');
    const collection = new Collection(entries, hasUpdatedAt);
    this.#collections.set(resource, collection);
    return collection;
  }

  #write(resource: string, id: string, text: string | null): void {
    const collection = this.#collections.get(resource) ?? this.#add(resource, []);
    const before = collection.get(id);
    const recordTime = text === null ? 0 : readIdAndTime(text).time;
    const time = recordTime === 0 || !collection.hasUpdatedAt ? this.#clock.now() : recordTime;
    collection.set(id, text === null ? null : Buffer.from(text), time);
    const kinds = listEvents(before === null ? null : decode(before), text);
    for (const kind of kinds) this.#changed({ resource, kind, id, time });
  }
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

function findRecordFiles(folder: string): Map<string, string> {
  if (!existsSync(folder)) {
    throw new ConfigError('usage', `The data folder ${folder} does not exist.`, {
      hint: 'Name a folder that holds content.ndjson, images.ndjson or analytics.ndjson.',
    });
  }
  const files = readdirSync(folder).filter((file) => file.endsWith('.ndjson'));
  return new Map(files.map((file) => [parse(file).name, join(folder, file)]));
}

function checkName(name: string): void {
  if (/^[a-z][a-z0-9_-]*$/.test(name) && name !== 'webhooks') return;
  throw new ConfigError('usage', `"${name}" cannot be the name of a resource.`, {
    hint: 'Use a lower-case name other than "webhooks".',
  });
}

/** Reads one record per line and keeps its spelling. Throws ConfigError with file and line if a line is not JSON. */
function readEntries(file: string): CollectionEntry[] {
  const entries: CollectionEntry[] = [];
  const keys = new Set<string>();
  const lines = readFileSync(file, 'utf8')
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/);
  for (const [at, line] of lines.entries()) {
    if (line.trim() === '') continue;
    const { id, time } = readLine(line, `${file}:${at + 1}`);
    const key = id === null || keys.has(id) ? `${id ?? ''}\u0000${at + 1}` : id;
    keys.add(key);
    entries.push({ key, time, text: Buffer.from(line) });
  }
  return entries;
}

function readLine(text: string, position: string): ReturnType<typeof readIdAndTime> {
  try {
    return readIdAndTime(text);
  } catch (error) {
    throw new ConfigError('usage', `${position} is not a JSON value: ${messageOf(error)}`, {
      hint: 'Give one JSON record per line.',
      cause: error,
    });
  }
}
