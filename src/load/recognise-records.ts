import type { KnownRecords } from '../extract/requests/known-records.ts';
import type { JsonObject, SourceRecord } from '../model/json.ts';
import type { Column, ResourceShape } from '../model/table.ts';
import { plainTimestamp } from '../shape/columns/plain-times.ts';
import { updatedColumns } from '../shape/columns/updated-time.ts';
import type { KnownElement } from '../shape/json/parse-body.ts';
import { textHash } from '../shape/records/fingerprint.ts';
import { memberGuess, type GuessMember } from '../shape/records/guess-member.ts';
import { recordKey } from '../shape/records/record-key.ts';
import type { StoredRow } from '../warehouse/warehouse.ts';
import type { LoadContext } from './load-context.ts';
import { plainFields, type PlainFields } from './plain-fields.ts';

/** What the warehouse held of a page's records when they came. */
export interface Lookup {
  /** The oldest turn that was unanswered when it was begun. */
  turn: number;
  shape: ResourceShape;
  /** Keys that were looked for, and the rows that some of them have. */
  keys: Pick<ReadonlySet<string>, 'has'>;
  rows: ReadonlyMap<string, StoredRow>;
}

/** What was looked up for the records of one body. */
interface BodyLookup extends Lookup {
  keys: ReadonlySet<string>;
}

/** Recognises records that are stored as they came, and keeps what was looked up for it until the page is loaded. */
export interface Recogniser extends KnownRecords {
  /** Null if nothing was looked up for a page of these records. */
  lookupOf(records: readonly SourceRecord[]): Lookup | null;
}

/** Null if records must be read whatever is stored, or no hash of their source is. */
export function createRecogniser(context: LoadContext): Recogniser | null {
  const { profile } = context;
  const fields = profile.history === 'none' ? null : plainFields(profile);
  if (fields === null) return null;
  const lookups = new WeakMap<ArrayBufferLike, BodyLookup>();
  return {
    lookupOf: (records) => joinedLookup(records, lookups),
    recognise: async (unread) => {
      const sources = unread.sources();
      const elements = sources.map((source) => ({ source, hash: textHash(source), partial: null }));
      const [first] = sources;
      if (first === undefined) return elements;
      try {
        return await recognised(context, fields, elements, (lookup) => lookups.set(first.buffer, lookup));
      } catch {
        // What is wrong with the warehouse is told by whoever writes to it.
        return elements;
      }
    },
  };
}

/** What was looked up for the records of one body, or of several; null if there is a body of which nothing was. */
function joinedLookup(records: readonly SourceRecord[], lookups: WeakMap<ArrayBufferLike, BodyLookup>): Lookup | null {
  let joined: BodyLookup | null = null;
  for (const body of new Set(records.map(({ bytes }) => bytes.buffer))) {
    const lookup = lookups.get(body);
    // A weak map would keep it through young collections.
    lookups.delete(body);
    if (lookup === undefined || (joined !== null && joined.shape !== lookup.shape)) return null;
    joined = joined === null ? lookup : bothOf(joined, lookup);
  }
  return joined;
}

function bothOf(one: BodyLookup, other: BodyLookup): BodyLookup {
  return {
    turn: Math.min(one.turn, other.turn),
    shape: one.shape,
    keys: one.keys.union(other.keys),
    rows: new Map([...one.rows, ...other.rows]),
  };
}

async function recognised(
  { warehouse, owned }: LoadContext,
  fields: PlainFields,
  elements: readonly KnownElement[],
  keep: (lookup: BodyLookup) => void,
): Promise<readonly KnownElement[]> {
  const { shape, oldestTurn: turn } = owned;
  const [table] = shape?.tables ?? [];
  const guess = guessesOf(elements[0]?.source, fields);
  if (shape === null || table === undefined || guess === null) return elements;
  const columns = updatedColumns(table.columns, fields);
  const guessed = elements.map(({ source }) => guessedRecord(source, fields, guess));
  const keys = new Set(guessed.flatMap((record) => record?.key ?? []));
  const rows = await warehouse.stored(table, [...keys], columns);
  keep({ turn, shape, keys, rows });
  return elements.map(({ source, hash }, index) => {
    const record = guessed[index] ?? null;
    const row = record === null ? undefined : rows.get(record.key);
    // The hash proves the key as well: it is that of what was once read under it.
    const isStored = row !== undefined && row.hash === hash && row.deletedAt === null;
    return {
      source,
      hash,
      partial: isStored && record !== null && hasTime(row, record, columns) ? record.value : null,
    };
  });
}

interface Guesses {
  id: GuessMember;
  /** Null if no time of change is asked for. */
  updated: GuessMember | null;
}

function guessesOf(example: Buffer | undefined, { id, updated }: PlainFields): Guesses | null {
  const found = example === undefined ? null : memberGuess(example, id);
  const time = example === undefined || updated === null ? null : memberGuess(example, updated);
  return found === null || (updated !== null && time === null) ? null : { id: found, updated: time };
}

interface GuessedRecord {
  key: string;
  /** The cell of its time of change; null if none is asked for. */
  updated: string | null;
  value: JsonObject;
}

/** Null if not all fields are found. */
function guessedRecord(source: Buffer, fields: PlainFields, guess: Guesses): GuessedRecord | null {
  const id = guess.id(source);
  if (id === undefined) return null;
  const value: JsonObject = { [fields.id]: id };
  const found = recordKey(value, fields.id);
  if (!('key' in found)) return null;
  const { key } = found;
  if (fields.updated === null || guess.updated === null) return { key, updated: null, value };
  const text = guess.updated(source);
  const updated = typeof text === 'string' ? plainTimestamp(text) : null;
  if (text === undefined || updated === null) return null;
  value[fields.updated] = text;
  return { key, updated, value };
}

/** True if the row's time of change, which was read in the record, is the one that was guessed. */
function hasTime(row: StoredRow, { updated }: GuessedRecord, [column]: readonly Column[]): boolean {
  if (updated === null || column?.type !== 'timestamp') return updated === null;
  // One database leaves milliseconds out that are none.
  return row.updated === updated || row.updated === `${updated}.000`;
}
