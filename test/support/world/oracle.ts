import type Database from 'better-sqlite3';
import { hasTable, recordDifferences, RESOURCE, rowsIn, tablesIn, type CopiedTable, type Difference } from './copy.ts';
import { canonical, parsed, type Fields } from './json-value.ts';
import type { PastState } from './records.ts';

/** What must be in the copy: by key the body, null for a record that must not be live, `either` for one that may be. */
export type Truth = ReadonlyMap<string, Fields | null | 'either'>;

interface Version {
  id: string;
  version: number;
  valid_from: string;
  valid_to: string | null;
  op: 'upsert' | 'delete';
  body: string | null;
}

/**
 * Everything in which the copy is not the truth. With `isWhole`, rows that the truth does not know are too many. `stored`:
 * the bodies that versions keep, by key, where they are not what the rows hold.
 */
export function differencesFrom(
  db: Database.Database,
  truth: Truth,
  isWhole: boolean,
  stored: ReadonlyMap<string, Fields> = new Map(),
): Difference[] {
  const tables = tablesIn(db);
  const [own] = tables;
  if (own === undefined) {
    const isNeeded = [...truth.values()].some((body) => body !== null && body !== 'either');
    return isNeeded ? [{ kind: 'no table', key: null, text: 'there is no table' }] : [];
  }
  const rows = new Map(tables.map((table) => [table.name, rowsIn(db, table)]));
  const live = new Set([...(rows.get(own.name) ?? new Map<string, unknown>()).keys()].map(keyIn));
  const copy = { tables, rows, live, bodies: openBodies(db), sent: stored };
  const found = [...truth].flatMap(([key, wanted]) => (wanted === 'either' ? [] : differencesOf(copy, key, wanted)));
  return [...found, ...(isWhole ? strangers(live, truth) : []), ...orphans(rows, own, live)];
}

interface Copy {
  tables: readonly CopiedTable[];
  rows: ReadonlyMap<string, ReadonlyMap<string, unknown[]>>;
  /** Keys of live rows. */
  live: ReadonlySet<string>;
  /** Of the open versions. */
  bodies: ReadonlyMap<string, string | null>;
  /** Bodies as the service sends them, where its rows hold something else. */
  sent: ReadonlyMap<string, Fields>;
}

function differencesOf({ tables, rows, live, bodies, sent }: Copy, key: string, body: Fields | null): Difference[] {
  if (body === null) {
    return live.has(key)
      ? [{ kind: 'not deleted', key, text: `${key} is live and the service has no such record` }]
      : [];
  }
  const stored = bodies.get(key) ?? null;
  if (!live.has(key)) return recordDifferences(tables, rows, key, body);
  if (stored === null) return [{ kind: 'body', key, text: `${key} has no open version` }];
  // The whole record is another one: its cells only say so once more.
  const whole = canonical(sent.get(key) ?? body);
  const isStale = canonical(parsed(stored)) !== whole;
  const text = `${key} is ${stored}, should be ${whole}`;
  return isStale ? [{ kind: 'stale', key, text }] : recordDifferences(tables, rows, key, body);
}

function strangers(live: ReadonlySet<string>, truth: Truth): Difference[] {
  return [...live]
    .filter((key) => !truth.has(key))
    .map((key) => ({ kind: 'not deleted', key, text: `${key} is live and the service never had such a record` }));
}

/** Rows of lists whose record is not live. */
function orphans(
  rows: ReadonlyMap<string, ReadonlyMap<string, unknown>>,
  own: CopiedTable,
  live: ReadonlySet<string>,
): Difference[] {
  return [...rows].flatMap(([name, ofTable]) =>
    name === own.name
      ? []
      : [...ofTable.keys()]
          .filter((place) => !live.has(keyIn(place)))
          .map((place): Difference => ({
            kind: 'elements',
            key: keyIn(place),
            text: `${name} ${place}: its record is not live`,
          })),
  );
}

function keyIn(place: string): string {
  const parts: unknown = JSON.parse(place);
  return Array.isArray(parts) ? String(parts[0]) : '';
}

function openBodies(db: Database.Database): Map<string, string | null> {
  const open = versionsIn(db).filter(({ valid_to, op }) => valid_to === null && op === 'upsert');
  return new Map(open.map(({ id, body }) => [id, body]));
}

function versionsIn(db: Database.Database): Version[] {
  if (!hasTable(db, '_sync_versions')) return [];
  return db
    .prepare<[string], Version>(
      `SELECT id, version, valid_from, valid_to, op, body FROM _sync_versions WHERE resource = ? ORDER BY id, version`,
    )
    .all(RESOURCE);
}

interface Remembering {
  /** All that a record ever was, oldest first, by its key. */
  past: ReadonlyMap<string, readonly PastState[]>;
}

interface RowState {
  id: string;
  version: number;
  isDeleted: number;
}

/**
 * What must hold of the history whatever a run said: versions in one piece, the last one open and that of the row, a
 * delete exactly where the row is deleted; and no body that the record never had. Where `isOrdered`, none either that
 * its own time calls older than the one in front of it, and that it was not restored to.
 */
export function historyFaults(db: Database.Database, { past }: Remembering, isOrdered: boolean): Difference[] {
  const [own] = tablesIn(db);
  if (own === undefined || !hasTable(db, own.name)) return [];
  const chains = Map.groupBy(versionsIn(db), ({ id }) => id);
  const states = db
    .prepare<[], RowState>(
      `SELECT "${own.keys[0]}" AS id, _version AS version, _deleted_at IS NOT NULL AS isDeleted FROM "${own.name}"`,
    )
    .all();
  const strays = [...chains.keys()].filter((id) => !states.some((state) => state.id === id));
  return [
    ...strays.map((key): Difference => ({ kind: 'chain', key, text: `${key}: versions without a row` })),
    ...states.flatMap((state) => historyFault(state, chains.get(state.id) ?? [], past.get(state.id) ?? [], isOrdered)),
  ];
}

function historyFault(
  state: RowState,
  chain: readonly Version[],
  past: readonly PastState[],
  isOrdered: boolean,
): Difference[] {
  const key = state.id;
  const broken = chainFault(state, chain);
  if (broken !== null) return [{ kind: 'chain', key, text: `${key}: ${broken}` }];
  const never = neverWas(chain, past, isOrdered);
  return never === null ? [] : [{ kind: 'history', key, text: `${key}: ${never}` }];
}

function chainFault(state: RowState, chain: readonly Version[]): string | null {
  const last = chain.at(-1);
  if (last === undefined) return 'no version';
  if (last.valid_to !== null) return `its last version ${last.version} is closed`;
  if (last.version !== state.version) return `is of version ${state.version}, its last one is ${last.version}`;
  if ((last.op === 'delete') !== (state.isDeleted === 1)) return `its last version is a ${last.op}`;
  const gap = chain.findIndex(({ valid_to, version }, at) => {
    const next = chain[at + 1];
    return next !== undefined && (valid_to !== next.valid_from || next.version !== version + 1);
  });
  return gap === -1 ? null : `version ${chain[gap]?.version} does not end where the next one begins`;
}

/** Walks through the record's own past and finds each stored body in it, in order. */
function neverWas(chain: readonly Version[], past: readonly PastState[], isOrdered: boolean): string | null {
  let at = 0;
  for (const { op, body, version } of chain) {
    if (op === 'delete' || body === null) continue;
    const wanted = canonical(parsed(body));
    const first = past.findIndex((state) => state.body === wanted);
    if (first === -1) return `the body of version ${version} is none that the record ever had: ${body}`;
    const later = past.findIndex((state, place) => place >= at && state.body === wanted);
    if (later === -1 && isOrdered && isOlder(past[first], past[at])) {
      return `the body of version ${version} was before the version in front of it: ${body}`;
    }
    at = later === -1 ? first : later;
  }
  return null;
}

/** By their own times. */
function isOlder(state: PastState | undefined, than: PastState | undefined): boolean {
  const [a, b] = [state?.updatedAt ?? null, than?.updatedAt ?? null];
  return a !== null && b !== null && a < b;
}
