import type { Clock } from '../../model/clock.ts';
import type { Profile } from '../../config/profile/profile.ts';
import { shownPlace } from '../../database/databases.ts';
import type { WarehouseReader } from '../../database/reading.ts';
import { createCachedReader } from '../status/cached-reader.ts';
import { type Problem, scrubTexts } from '../status/snapshot.ts';
import { problemOf } from '../status/source-status.ts';
import { countDictionary, type Dictionary, readDictionary, type RowCounts } from './read-dictionary.ts';

type ReadTables = Pick<WarehouseReader, 'own' | 'dialect' | 'rows'>;

/** A source that is being served, as its tables are read. */
export interface TableParts {
  source: { name: string; warehouse: string; resources: readonly string[]; profile: Pick<Profile, 'resources'> };
  /** Gives an open warehouse to `work`; throws the reason if there is none. */
  read: <T>(work: (warehouse: ReadTables) => Promise<T>) => Promise<T>;
  /** Takes secrets out of a text. */
  scrub: (text: string) => string;
}

/** The tables of one source: `counts` is null until they are counted. */
export type SourceTables = { dictionary: Dictionary; counts: RowCounts | null } | { source: string; problem: Problem };

/** What is read is kept for a while; reading takes at most a twentieth of the time, counting a fiftieth. */
const READ = { keepMs: 5_000, keepTimes: 20, patienceMs: 3_000 };
const COUNT = { keepMs: 30_000, keepTimes: 50, patienceMs: 150 };

/** Reads nothing before it is asked; the returned function does not throw, and waits some seconds at most. */
export function createTableReader({ source, read, scrub }: TableParts, clock: Clock): () => Promise<SourceTables> {
  const readTables = createCachedReader(
    () => {
      const { name, warehouse: address, resources, profile } = source;
      const about = { source: name, warehouse: shownPlace(address), resources, profile, at: clock.now() };
      return read((warehouse) => readDictionary(about, warehouse));
    },
    { clock, ...READ },
  );
  let tables: Dictionary | null = null;
  const count = createCachedReader(
    () => {
      const known = tables;
      return known === null ? Promise.resolve({}) : read((warehouse) => countDictionary(known, warehouse));
    },
    { clock, ...COUNT },
  );
  return async () => {
    const { value, error, isLate } = await readTables();
    if (value === null || error !== null) {
      const cause = error ?? new Error(isLate ? 'they are still being read' : 'they were not read');
      return { source: source.name, problem: problemOf(cause, scrub) };
    }
    tables = value;
    return scrubTexts({ dictionary: value, counts: (await count()).value }, scrub);
  };
}
