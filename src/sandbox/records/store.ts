import type { Clock } from '../../model/clock.ts';
import { Collection, NO_RECORDS, type Sort, type StartingRecords } from './collection.ts';
import type { ImageFiles } from './image-files.ts';
import { type EventKind, eventsOf } from './record-changes.ts';
import { factsOf } from './record-facts.ts';

/** One live record, to compare a copy with. */
interface StoredRecord {
  id: string;
  /** The exact JSON text that the service sends. */
  text: string;
}

/** A change, for webhooks. */
export interface RecordChange {
  resource: string;
  kind: EventKind;
  id: string;
  /** Epoch milliseconds by which the record is sorted. */
  time: number;
}

/** All records of the sandbox, in this process: to look at, and to change while they are being walked. */
export interface Store {
  resources(): string[];
  get(resource: string, id: string): StoredRecord | null;
  /** Every live record in listing order, whether the listing shows it yet or not. */
  list(resource: string): Generator<StoredRecord>;
  /**
   * Creates or replaces a record, as it is given: text keeps its spelling, `updated_at` is not touched. It takes its
   * place by its own `updated_at`, or by the service's clock if it has none.
   */
  put(resource: string, record: string | object): void;
  /** False if there was none. */
  remove(resource: string, id: string): boolean;
}

/** The store with what only the routes need. */
export interface RecordStore extends Store {
  collection(resource: string): Collection | undefined;
  files: ImageFiles;
}

export interface StoreParts {
  bases: ReadonlyMap<string, StartingRecords>;
  files: ImageFiles;
  sort: Sort;
  visibilityLagMs: number;
  clock: Clock;
  changed(change: RecordChange): void;
}

/** Builds the store over the records that the sandbox starts with. */
export function recordStore(parts: StoreParts): RecordStore {
  const collections = new Map<string, Collection>();
  const collect = (resource: string, base: StartingRecords) => {
    const collection = new Collection(base, parts.sort, parts.visibilityLagMs);
    collections.set(resource, collection);
    return collection;
  };
  for (const [resource, base] of parts.bases) collect(resource, base);
  const write = (resource: string, id: string, text: string | null) => {
    change(parts, resource, collections.get(resource) ?? collect(resource, NO_RECORDS), id, text);
  };
  const get = (resource: string, id: string) => stored(id, collections.get(resource)?.get(id) ?? null);
  return {
    files: parts.files,
    collection: (resource) => collections.get(resource),
    resources: () => [...collections.keys()],
    get,
    *list(resource) {
      for (const entry of collections.get(resource)?.all() ?? []) yield { id: entry.key, text: decoded(entry.text) };
    },
    put: (resource, record) => {
      const text = typeof record === 'string' ? record : JSON.stringify(record);
      const { id } = factsOf(text);
      if (id === null) throw new TypeError('A record that is put must have an "id", a text or a number.');
      write(resource, id, text);
    },
    remove: (resource, id) => {
      if (get(resource, id) === null) return false;
      write(resource, id, null);
      return true;
    },
  };
}

function change(parts: StoreParts, resource: string, collection: Collection, id: string, text: string | null): void {
  const before = collection.get(id);
  const now = parts.clock.now();
  const own = text === null ? 0 : factsOf(text).time;
  const time = own === 0 || !collection.stamped ? now : own;
  collection.set(id, text === null ? null : Buffer.from(text), time, parts.clock.monotonic());
  const kinds = eventsOf(before === null ? null : decoded(before), text);
  for (const kind of kinds) parts.changed({ resource, kind, id, time });
}

function stored(id: string, bytes: Uint8Array | null): StoredRecord | null {
  return bytes === null ? null : { id, text: decoded(bytes) };
}

function decoded(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}
