import { messageOf, SyncError } from '../../../model/errors.ts';
import { InUse, type DroppedView, type LeaseProof } from '../../warehouse.ts';
import type { ViewChange } from '../../view-dialect.ts';
import type { Session } from '../connection/session.ts';
import { causeCode, isLocked, type Database, transact } from '../connection/transact.ts';
import { attachViews, dropViews, viewPlan, type ViewPlan } from '../views/attach-views.ts';
import { dependentsOf, inUse, refuseLosses, refuseOthersViews, refuseRowTypes, type Dependent } from './dependents.ts';
import { alterTypes, dropNumberText, makeNumberText, type Widening } from './ddl.ts';
import { escapeIdentifier as quoted } from 'pg';

/** A change of tables that stand. */
interface Alteration {
  widenings: readonly Widening[];
  /** Tables that get columns, and the statements that add them. */
  tables: readonly string[];
  additions: readonly string[];
  /** All views of ours: those that change are made with it. */
  views: readonly ViewChange[];
  /** True if views of others that cannot follow are dropped. */
  dropsOthers: boolean;
  /** Runs in the same transaction, before any table is locked. */
  prepare: (session: Session) => Promise<void>;
}

/**
 * Alters tables and views in one transaction: what depends on a column that widens is dropped and made again as it was,
 * with its owner, rights, options, comments and indexes. Throws `InUse` if something of others cannot be made again, and
 * nothing was changed; with `dropsOthers` such views are dropped and returned.
 */
export async function alterTables(
  database: Database,
  lease: LeaseProof,
  alteration: Alteration,
): Promise<readonly DroppedView[]> {
  try {
    return await alter(database, lease, alteration, false).catch((error: unknown) => {
      // A view does not change the collation of its columns: it is dropped and made again.
      if (causeCode(error) !== '42P16') throw error;
      return alter(database, lease, alteration, true);
    });
  } catch (error) {
    throw explained(error, alteration.widenings);
  }
}

function alter(
  database: Database,
  lease: LeaseProof,
  { widenings, tables, additions, views: ours, dropsOthers, prepare }: Alteration,
  isCollated: boolean,
): Promise<readonly DroppedView[]> {
  const uses = widenings.map(({ table, columns }) => ({ table, columns: columns.map(({ name }) => name) }));
  return exclusively(database, lease, async (step) => {
    const { session } = step;
    await prepare(session);
    await makeNumberText(session, widenings);
    const views = await viewPlan(session, ours, uses, isCollated);
    const dependents = await dependentsOf(session, uses, views);
    if (!dropsOthers) refuseOthersViews(dependents);
    await refuseRowTypes(session, views);
    for (const use of uses) await refuseLosses(session, use);
    const keys = await referenceKeys(session, widenings);
    // Outer views first and tables last, in the order in which readers lock them: no deadlock.
    const drops = [...dropViews(views, dependents, dropsOthers), ...views.detached.values()];
    await step.lock([...new Set([...uses.map(({ table }) => table), ...tables])], drops);
    await step.run([...keys, ...widenings.map(alterTypes), ...additions]);
    const dropped = await makeViews(step, views, dependents, dropsOthers);
    await dropNumberText(session, widenings);
    return dropped;
  });
}

/** Makes our views, then those of others. Returns the ones that cannot be made again, if these may be left out. */
async function makeViews(
  step: ExclusiveStep,
  views: ViewPlan,
  dependents: readonly Dependent[],
  mayLeaveOut: boolean,
): Promise<DroppedView[]> {
  const belongings = new Map(dependents.map(({ view, statements }) => [view ?? '', statements.slice(1)]));
  await step.run(attachViews(views, belongings));
  const dropped: DroppedView[] = [];
  for (const dependent of dependents.filter(({ view }) => view === null)) {
    const { name, statements } = dependent;
    try {
      await step.run(mayLeaveOut ? ['SAVEPOINT one_view', ...statements, 'RELEASE one_view'] : statements);
    } catch (error) {
      if (isLocked(error)) throw error;
      if (!mayLeaveOut) throw new RemakeError(dependent, error);
      await step.run(['ROLLBACK TO one_view']);
      dropped.push({ name, definition: `${statements.join(';\n')};` });
    }
  }
  return dropped;
}

/** The statements that drop keys of ours to other resources on the columns: a wider one holds none any more. */
async function referenceKeys({ execute }: Session, widenings: readonly Widening[]): Promise<string[]> {
  const pairs = widenings.flatMap(({ table, columns }) => columns.map(({ name }) => [table, name] as const));
  if (pairs.length === 0) return [];
  const { rows } = await execute<{ statement: string }>(
    `SELECT DISTINCT pg_catalog.format('ALTER TABLE %I DROP CONSTRAINT %I', used.table_name, conname) AS statement
     FROM ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[])) AS used(table_name, column_name)
     JOIN pg_attribute ON attrelid = pg_catalog.to_regclass(pg_catalog.quote_ident(used.table_name)) AND attname = used.column_name
     JOIN pg_constraint ON conrelid = attrelid AND attnum = ANY(conkey)
     WHERE contype = 'f' AND pg_catalog.starts_with(conname, '_sync_')`,
    [pairs.map(([table]) => table), pairs.map(([, column]) => column)],
  );
  return rows.map(({ statement }) => statement);
}

/** A view that could not be made again; the transaction is undone. */
class RemakeError extends Error {
  readonly code: string;
  readonly dependent: Dependent;

  constructor(dependent: Dependent, cause: unknown) {
    super(messageOf(cause), { cause });
    this.code = causeCode(cause);
    this.dependent = dependent;
  }
}

/**
 * Beginnings of the SQLSTATEs of an object that cannot follow the widening of a column it depends on: syntax and rights,
 * values, constraints, limits, dependencies, functions of others.
 */
const IN_USE = ['0A', '2BP01', '42', '22', '23', '44', '54', 'P0', '39', '38'];

function explained(error: unknown, widenings: readonly Widening[]): unknown {
  const cause = error instanceof SyncError ? error.cause : error;
  const code = causeCode(error);
  if (error instanceof InUse || !IN_USE.some((beginning) => code.startsWith(beginning))) return error;
  if (cause instanceof RemakeError) return inUse([cause.dependent], cause);
  const by = messageOf(cause);
  const columns = widenings.flatMap(({ table, columns: wider }) =>
    wider.map(({ name }) => ({ table, column: name, by })),
  );
  return columns.length === 0 ? error : new InUse(columns, [], cause);
}

/** Readers of a table wait while we wait for its lock: half a second, then they go on, and we try again. */
const LOCK_MS = 600;
const LEAST_LOCK_MS = 10;
/** Longer than the server waits (`deadlock_timeout`, 1 s) before it stops an autovacuum that is in somebody's way. */
const VACUUM_MS = 3_000;
/** A reader may hold a table for minutes. */
const LOCKED_FOR_MS = 120_000;
/** A large table takes its time to be rewritten, and so do hundreds of views on a busy server. */
const STATEMENT_MS = 6 * 3_600_000;

/** A transaction that locks readers out of some tables. */
export interface ExclusiveStep {
  session: Session;
  /** Locks the tables, and runs `drops` before, which take locks as well. */
  lock: (tables: readonly string[], drops?: readonly string[]) => Promise<void>;
  /** Runs statements, which may take hours once the locks are held. */
  run: (statements: readonly string[]) => Promise<void>;
}

/**
 * Runs `work` in one transaction under the lease, and again while another session holds a lock that it needs. Throws
 * `SyncError` (`warehouse_busy` if that lasts for two minutes).
 */
export async function exclusively<T>(
  database: Database,
  lease: LeaseProof,
  work: (step: ExclusiveStep) => Promise<T>,
): Promise<T> {
  const options = { lockMs: LOCK_MS, statementMs: STATEMENT_MS, lockedForMs: LOCKED_FOR_MS, lease };
  return transact(database, (session) => work(exclusiveStep(session)), options);
}

function lockTable(name: string, mode: 'SHARE UPDATE EXCLUSIVE' | 'ACCESS EXCLUSIVE', timeoutMs: number): string {
  return `SET LOCAL lock_timeout TO ${timeoutMs}; LOCK TABLE ${quoted(name)} IN ${mode} MODE`;
}

function exclusiveStep(session: Session): ExclusiveStep {
  return {
    session,
    lock: async (tables, drops = []) => {
      // Nobody who reads waits behind this one. A big table that has just been filled is being vacuumed.
      for (const table of tables) await session.execute(lockTable(table, 'SHARE UPDATE EXCLUSIVE', VACUUM_MS));
      // A reader that waits for the first of them waits for all.
      const each = Math.max(LEAST_LOCK_MS, Math.floor(LOCK_MS / (tables.length + drops.length)));
      for (const drop of drops) await session.execute(`SET LOCAL lock_timeout TO ${each}; ${drop}`);
      for (const table of tables) await session.execute(lockTable(table, 'ACCESS EXCLUSIVE', each));
      await session.execute(`SET LOCAL lock_timeout TO ${LOCK_MS}`);
    },
    run: async (statements) => {
      if (statements.length > 0) await session.execute(statements.join('; '));
    },
  };
}
