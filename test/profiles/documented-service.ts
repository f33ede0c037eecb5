import type { Asked, Reply } from '../pagination/listing-server.ts';
import type { Json } from '../support/expected-rows.ts';
import type { JsonObject, TrueRecord } from '../services/service-stage.ts';

/** A service that answers as its documentation says, by code that knows nothing of the profile. */
export interface DocumentedService {
  profile: string;
  /** Settings under `auth`; null for a service that anybody may read. */
  auth: Record<string, unknown>;
  /** A credential that the service refuses; null where it asks for none. */
  refused: Record<string, unknown> | null;
  /** Laid over the profile: smaller pages, so that few records take several. */
  resources?: Record<string, unknown>;
  answer: (url: URL, asked: Asked) => Reply;
  /** All that is there, by resource. */
  truth: () => Record<string, TrueRecord[]>;
  /** The records that are edited. */
  shelf: Shelf;
  /** Whole walks that it takes to learn of deletes: none where a sync does, two where no record can be read alone. */
  walks: 0 | 1 | 2;
}

/** One change, the oldest first. */
interface Change {
  seq: number;
  n: number;
  /** Null if it was deleted. */
  record: JsonObject | null;
  /** ISO 8601. */
  time: string;
}

const FIRST = Date.parse('2026-01-01T08:00:00Z');

/** Numbered records and the log of their changes. `make` writes a record as the service does. */
export class Shelf {
  readonly log: Change[] = [];
  readonly #records = new Map<number, JsonObject>();
  readonly #make: (n: number, rev: number, time: string) => JsonObject;

  constructor(count: number, make: (n: number, rev: number, time: string) => JsonObject) {
    this.#make = make;
    for (let n = 0; n < count; n += 1) this.#put(n, 1, new Date(FIRST + n * 60_000).toISOString());
  }

  /** Makes it, or changes it now. */
  edit(n: number): void {
    this.#put(n, this.log.length, new Date().toISOString());
  }

  remove(n: number): void {
    this.#records.delete(n);
    this.log.push({ seq: this.seq + 1, n, record: null, time: new Date().toISOString() });
  }

  get seq(): number {
    return this.log.length;
  }

  rows(): JsonObject[] {
    return [...this.#records].toSorted(([a], [b]) => a - b).map(([, record]) => record);
  }

  one(n: number): JsonObject | undefined {
    return this.#records.get(n);
  }

  /** The last word of each record behind a place in the log. */
  since(seq: number): Change[] {
    return this.log.filter(
      (one) => one.seq > seq && !this.log.some((later) => later.n === one.n && later.seq > one.seq),
    );
  }

  #put(n: number, rev: number, time: string): void {
    const record = this.#make(n, rev, time);
    this.#records.set(n, record);
    this.log.push({ seq: this.seq + 1, n, record, time });
  }
}

/** `a017`: sorted as numbers are. */
export function named(prefix: string, n: number): string {
  return `${prefix}${String(n).padStart(3, '0')}`;
}

/** The number in such a name; -1 if there is none. */
export function numberIn(text: string | undefined): number {
  return Number(/\d+$/.exec(text ?? '')?.[0] ?? -1);
}

/** The number that a parameter has. */
export function numeric(url: URL, name: string, otherwise: number): number {
  return Number(url.searchParams.get(name) ?? otherwise);
}

/** Records by the text of their key. */
export function truthOf(records: readonly JsonObject[], key: (record: JsonObject) => unknown): TrueRecord[] {
  return records.map((record) => {
    const id = key(record);
    return { id: Array.isArray(id) ? JSON.stringify(id.map(String)) : String(id), record };
  });
}

/** The record, or how the service says that there is none. */
export function found(record: JsonObject | undefined, wrap: (record: JsonObject) => unknown): Reply {
  return record === undefined ? { status: 404, body: { error: 'not found' } } : { body: wrap(record) };
}

/** The one of the records whose field has this value. */
export function foundIn(
  records: readonly JsonObject[],
  value: unknown,
  wrap: (record: JsonObject) => unknown = (record) => record,
  field = 'id',
): Reply {
  return found(
    records.find((record) => record[field] === value),
    wrap,
  );
}

/** True if the request has this header. */
export function sends({ headers }: Asked, name: string, value: string): boolean {
  return headers[name.toLowerCase()] === value;
}

export const UNAUTHORISED: Reply = { status: 401, body: { message: 'unauthorised' } };
export const NOT_FOUND: Reply = { status: 404, body: { message: 'not found' } };

/** The time of change in a record, in epoch milliseconds; NaN if it has none. */
export function timeOf(record: JsonObject, field: string): number {
  const value = record[field];
  return typeof value === 'string' ? Date.parse(value) : NaN;
}

/** The records of one listing, with the field by which the copy tells it from others. */
export function withField(records: readonly JsonObject[], field: string, value: Json): JsonObject[] {
  return records.map((record) => Object.assign({}, record, { [field]: value }));
}
