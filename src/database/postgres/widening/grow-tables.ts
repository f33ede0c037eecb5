// Adds tables and columns and widens types in one transaction (`growTables`). Postgres does not widen `price` from bigint to
// numeric while views depend on it: they are dropped, and created again in the same transaction. Readers are locked out only
// briefly: an attempt that does not get its locks soon is given up and repeated.
import { escapeIdentifier as quoted } from 'pg';
import { messageOf, SyncError } from '../../../model/errors.ts';
import type { TableShape } from '../../../model/table.ts';
import {
  type DroppedView,
  growthOutdated,
  type LeaseProof,
  type ShapeGrowth,
  tableExists,
  TableInUseError,
} from '../../warehouse.ts';
import { refuseMissingRights, refuseUnsafeObjects } from '../connection/schema-rights.ts';
import { asStep, type Session, type Step } from '../connection/session.ts';
import { causeCode, execute, isLocked, type PostgresSchema, transact } from '../connection/transact.ts';
import { createViews, dropViews, planViewChanges, renameFormerViews } from '../views/change-views.ts';
import { addColumns, createDeletedIndex, createTable, updateComments, type Widening, widenStatements } from './ddl.ts';
import {
  type Dependent,
  findDependents,
  inUseError,
  refuseLosses,
  refuseOthersViews,
  refuseRowTypes,
  type ViewPlan,
} from './dependents.ts';

/** A change of existing tables. */
interface Alteration {
  growth: ShapeGrowth;
  widenings: readonly Widening[];
  /** The statement that adds columns, by table. */
  additions: ReadonlyMap<string, string>;
  /** Run first, before any table is locked. */
  steps: readonly Step[];
}

/**
 * Creates tables, adds and widens columns, updates views and runs the growth's statements, in one transaction under the
 * lease. Throws `ConfigError` (`table_exists`, `table_in_use`, `warehouse_refused`, `schema_unsafe`) and `SyncError`.
 */
export async function growTables(database: PostgresSchema, growth: ShapeGrowth): Promise<readonly DroppedView[]> {
  const { before, after, views, statements, claim, references = new Set<string>() } = growth;
  const existing = new Set(before?.tables.map((table) => table.name));
  const created = after.tables.filter(({ name }) => !existing.has(name));
  const changes = Map.groupBy(
    growth.changes.filter(({ table }) => existing.has(table)),
    ({ table }) => table,
  );
  const widenings = [...changes].flatMap(([table, changed]): Widening[] => {
    const columns = changed.flatMap(({ column: { name, type }, from }) =>
      from === null ? [] : [{ name, type, from }],
    );
    return columns.length === 0 ? [] : [{ table, columns }];
  });
  const additions = [...changes].flatMap(([table, changed]): [string, string][] => {
    const columns = changed.flatMap(({ column, from }) => (from === null ? [column] : []));
    return columns.length === 0 ? [] : [[table, addColumns(table, columns, references)]];
  });
  const run = execute(database);
  // New columns alone need no rights on the schema.
  if (created.length + widenings.length > 0) await refuseMissingRights(run, database);
  // A widening runs definitions of external views again.
  if (widenings.length > 0) await refuseUnsafeObjects(run, database);
  const steps = [
    // The claim comes first: other processes that change tables wait for its lock.
    ...(claim === null ? [] : [{ ...asStep(claim), errorIfNoRow: growthOutdated }]),
    ...renameFormerViews(views),
    ...created.flatMap((table) => creationSteps(database.schema, table, references)),
    ...statements.map(asStep),
  ];
  const dropped = await alterTables(database, { growth, widenings, additions: new Map(additions), steps });
  // Runs after the locks are released; if interrupted, the next schema change writes all comments.
  await updateComments(database, growth.comments ?? [], after.tables, views);
  return dropped;
}

function creationSteps(schema: string, table: TableShape, references: ReadonlySet<string>): Step[] {
  const { name, path } = table;
  const refuseExisting = {
    text: 'SELECT 1 FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1) AND relname = $2',
    values: [schema, name],
    errorOfRow: () => tableExists(name),
  };
  const index = path.length === 0 ? [{ text: createDeletedIndex(table) }] : [];
  return [refuseExisting, { text: createTable(table, references) }, ...index];
}

/** SQLSTATE of a view whose column would get another collation. */
const INVALID_TABLE_DEFINITION = '42P16';

/** Alters tables in one transaction, which is repeated while other sessions hold locks on them. */
async function alterTables(database: PostgresSchema, alteration: Alteration): Promise<readonly DroppedView[]> {
  const alter = (isCollated: boolean): Promise<readonly DroppedView[]> =>
    transactExclusively(database, alteration.growth.lease, (session) =>
      attemptAlteration(session, alteration, isCollated),
    );
  try {
    return await alter(false).catch((error: unknown) => {
      if (causeCode(error) !== INVALID_TABLE_DEFINITION) throw error;
      // A view cannot be replaced with another collation: this time it is dropped and created again.
      return alter(true);
    });
  } catch (error) {
    throw explainError(error, alteration.widenings);
  }
}

/**
 * Drops all views that depend on changed columns, alters the tables, and creates the views again as they were. `isCollated`
 * if a view must be dropped because its column gets another collation.
 */
async function attemptAlteration(
  session: Session,
  { growth, widenings, additions, steps }: Alteration,
  isCollated: boolean,
): Promise<readonly DroppedView[]> {
  const { views, dropsOthers = false } = growth;
  const uses = widenings.map(({ table, columns }) => ({ table, columns: columns.map(({ name }) => name) }));
  await session.runAll(steps);
  const plan = await planViewChanges(session, views, uses, isCollated);
  const dependents = await findDependents(session.execute, uses, plan);
  if (!dropsOthers) refuseOthersViews(dependents);
  await refuseRowTypes(session, plan);
  await refuseLosses(session, uses);
  // Outer views first and tables last, in the order in which readers lock them: no deadlock.
  const drops = [...dropViews(plan, dependents, dropsOthers), ...plan.detached.values()];
  await lockTables(session, [...new Set([...uses.map(({ table }) => table), ...additions.keys()])], drops);
  await runTogether(session, [...widenStatements(widenings), ...additions.values()]);
  return createDependents(session, plan, dependents, dropsOthers);
}

/** Creates managed views, then external ones. Returns those that cannot be created again, if these may be left out. */
async function createDependents(
  session: Session,
  plan: ViewPlan,
  dependents: readonly Dependent[],
  mayLeaveOut: boolean,
): Promise<DroppedView[]> {
  // The first statement creates the view; the others restore its rights and comments.
  const restored = new Map(dependents.map(({ view, statements }) => [view ?? '', statements.slice(1)]));
  await runTogether(session, createViews(plan, restored));
  const dropped: DroppedView[] = [];
  for (const dependent of dependents.filter(({ view }) => view === null)) {
    const { name, statements } = dependent;
    try {
      await runTogether(session, mayLeaveOut ? ['SAVEPOINT one_view', ...statements, 'RELEASE one_view'] : statements);
    } catch (error) {
      if (isLocked(error)) throw error;
      if (!mayLeaveOut) throw isInUse(error) ? inUseError([dependent], error) : error;
      await session.execute('ROLLBACK TO one_view');
      dropped.push({ name, definition: `${statements.join(';\n')};` });
    }
  }
  return dropped;
}

/**
 * Prefixes of the SQLSTATEs of an object that does not fit a wider column: syntax and rights, values, constraints,
 * limits, dependencies, errors of functions.
 */
const IN_USE = ['0A', '2BP01', '42', '22', '23', '44', '54', 'P0', '39', '38'];

function isInUse(error: unknown): boolean {
  return IN_USE.some((prefix) => causeCode(error).startsWith(prefix));
}

/** Converts the error to `TableInUseError` if an object that depends on a widened column has caused it. */
function explainError(error: unknown, widenings: readonly Widening[]): unknown {
  if (error instanceof TableInUseError || widenings.length === 0 || !isInUse(error)) return error;
  const cause = error instanceof SyncError ? error.cause : error;
  const by = messageOf(cause);
  const columns = widenings.flatMap(({ table, columns: wider }) =>
    wider.map(({ name }) => ({ table, column: name, by })),
  );
  return new TableInUseError(columns, [], cause);
}

/** Readers wait for a table while we wait for its lock: after this time we give up, and they continue. */
const LOCK_TIMEOUT_MS = 600;
const MIN_LOCK_TIMEOUT_MS = 10;
/** Longer than the server waits (`deadlock_timeout`, 1 s) before it cancels an autovacuum that blocks us. */
const VACUUM_TIMEOUT_MS = 3_000;
/** A reader may hold a table for minutes. */
const RETRY_FOR_MS = 120_000;
/** Rewriting a large table takes hours. */
const STATEMENT_TIMEOUT_MS = 6 * 3_600_000;

/**
 * Runs `work` in one transaction under the lease, and again while another session holds a lock that it needs. Throws
 * `SyncError` (`warehouse_busy` after two minutes).
 */
export async function transactExclusively<T>(
  database: PostgresSchema,
  lease: LeaseProof,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  return transact(database, work, {
    lockMs: LOCK_TIMEOUT_MS,
    statementMs: STATEMENT_TIMEOUT_MS,
    lockedForMs: RETRY_FOR_MS,
    lease,
  });
}

/** Runs `drops`, which take locks as well, and locks the tables. */
export async function lockTables(
  { execute }: Session,
  tables: readonly string[],
  drops: readonly string[],
): Promise<void> {
  const withTimeout = (timeoutMs: number, statement: string) =>
    execute(`SET LOCAL lock_timeout TO ${timeoutMs}; ${statement}`);
  // This lock blocks no reader. A large table that was just filled may be vacuumed.
  for (const table of tables) {
    await withTimeout(VACUUM_TIMEOUT_MS, `LOCK TABLE ${quoted(table)} IN SHARE UPDATE EXCLUSIVE MODE`);
  }
  // A reader that waits for the first table waits for all of them.
  const each = Math.max(MIN_LOCK_TIMEOUT_MS, Math.floor(LOCK_TIMEOUT_MS / (tables.length + drops.length)));
  for (const drop of drops) await withTimeout(each, drop);
  for (const table of tables) await withTimeout(each, `LOCK TABLE ${quoted(table)} IN ACCESS EXCLUSIVE MODE`);
  await execute(`SET LOCAL lock_timeout TO ${LOCK_TIMEOUT_MS}`);
}

/** Runs statements in one round trip. */
async function runTogether({ execute }: Session, statements: readonly string[]): Promise<void> {
  if (statements.length > 0) await execute(statements.join('; '));
}
