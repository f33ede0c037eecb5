import { escapeIdentifier as quoted } from 'pg';
import { messageOf, SyncError } from '../../../model/errors.ts';
import type { TableShape } from '../../../model/table.ts';
import type { ViewChange } from '../../view-dialect.ts';
import type { LeaseProof } from '../../warehouse.ts';
import type { Session } from '../connection/session.ts';
import { execute, transact, type Database } from '../connection/transact.ts';
import { attachViews, dropFunctions, viewPlan, type ViewPlan } from '../views/attach-views.ts';
import { InUse } from '../../in-use.ts';
import {
  dependentsOf,
  inUse,
  refuseLosses,
  refuseOthersViews,
  type Dependent,
  type TableColumns,
} from './dependents.ts';
import { causeCode, exclusively, isLocked, isTooSlow, type ExclusiveStep } from './exclusive-step.ts';
import { fillerStatements } from './kept-columns.ts';
import { abandonedColumns, fillShadowColumns, swapStatements, renameIndexes } from './shadow-column.ts';
import { alterInPlace, dropNumberText, makeNumberText, shadowColumn, type Widening } from './widening.ts';

/** A table of this size is written anew in a fraction of the time that readers may wait. */
const IN_PLACE_BYTES = 8 << 20;

/** Further statements of the same transaction. */
interface Alongside {
  /** Tables that are altered. */
  tables: readonly string[];
  /** Before any table is locked. */
  prepare(session: Session): Promise<void>;
  /** While the tables are locked. */
  alter: readonly string[];
  /** Of which columns that stay beside wider ones are filled. */
  filled: readonly TableShape[];
  /** Views of ours that are made with it, or made anew. */
  views: readonly ViewChange[];
}

/**
 * Widens columns, those of small tables in place and those of big ones by way of second columns, in one moment that
 * readers hardly notice. Views, indexes, grants and comments that stand on them are made again as they were. Throws
 * `InUse` if something is not: then the wider column can come beside.
 */
export async function widenColumns(
  database: Database,
  lease: LeaseProof,
  widenings: readonly Widening[],
  alongside: Alongside,
): Promise<void> {
  const isBig = await isBigTable(database, widenings);
  // Before a big table is filled for hours.
  if (isBig.includes(true)) await transact(database, (session) => remakeable(session, widenings, alongside.views));
  const big = widenings.filter(({ isBeside }, at) => isBeside || isBig[at]);
  const small = widenings.filter((widening) => !big.includes(widening));
  try {
    for (const widening of big) await fillShadowColumns(database, lease, widening);
    await alterTables(database, lease, { big, small }, alongside).catch((error: unknown) => {
      // A view does not change the collation of its columns: it is made anew.
      if (causeCode(error) !== '42P16') throw error;
      return alterTables(database, lease, { big, small, isCollated: true }, alongside);
    });
  } catch (error) {
    if (!isTooSlow(error) || small.length === 0) throw explained(error, widenings);
    await slowly(database, lease, { big, small }, alongside);
  }
}

/** All by way of second columns. */
async function slowly(
  database: Database,
  lease: LeaseProof,
  { big, small }: Plan,
  alongside: Alongside,
): Promise<void> {
  const widenings = [...big, ...small];
  try {
    for (const widening of small) await fillShadowColumns(database, lease, widening);
    await alterTables(database, lease, { big: widenings, small: [] }, alongside);
  } catch (error) {
    throw explained(error, widenings);
  }
}

/** The views to take off their tables, and those to make again. Throws `InUse` if others' things do not follow. */
async function remakeable(
  session: Session,
  widenings: readonly Widening[],
  ours: readonly ViewChange[],
  isCollated = false,
): Promise<{ views: ViewPlan; dependents: Dependent[] }> {
  const replaced = widenings.filter(({ isBeside }) => !isBeside);
  const uses = replaced.map(usesOf);
  const views = await viewPlan(session, ours, uses, isCollated);
  const dependents = await dependentsOf(session, uses, views);
  refuseOthersViews(dependents);
  for (const widening of replaced) await refuseLosses(session, widening);
  return { views, dependents };
}

async function isBigTable(database: Database, widenings: readonly Widening[]): Promise<boolean[]> {
  if (widenings.length === 0) return [];
  const { rows } = await execute(database)<{ big: boolean }>(
    `SELECT pg_table_size(format('%I.%I', $1::text, name)::regclass) > $3 AS big
     FROM unnest($2::text[]) WITH ORDINALITY AS tables(name, at) ORDER BY at`,
    [database.schema, widenings.map(({ table }) => table.name), IN_PLACE_BYTES],
  );
  return rows.map(({ big }) => big);
}

interface Plan {
  big: readonly Widening[];
  small: readonly Widening[];
  /** True if views of ours are dropped and made again, because a column has another collation. */
  isCollated?: true;
}

function alterTables(database: Database, lease: LeaseProof, plan: Plan, alongside: Alongside): Promise<void> {
  const widenings = [...plan.big, ...plan.small];
  const tables = new Set([...widenings.map(({ table }) => table.name), ...alongside.tables]);
  // Without a widening nothing is written anew: if that takes long, the server has much else to do just now.
  const passes = (error: unknown): boolean => isLocked(error) || (widenings.length === 0 && isTooSlow(error));
  const work = async (step: ExclusiveStep): Promise<void> => {
    const { session } = step;
    await alongside.prepare(session);
    await makeNumberText(session, widenings);
    const { views, dependents } = await remakeable(session, widenings, alongside.views, plan.isCollated);
    const swaps = await swapsOf(session, plan, tables);
    const keys = await keysOn(session, widenings);
    // Outer views first and tables last, in the order in which readers lock them: no deadlock.
    const drops = [
      ...dropFunctions(views, dependents),
      ...dependents.toReversed().map(({ kind, name }) => `DROP ${kind} ${name}`),
    ];
    await step.lock([...tables], [...drops, ...views.detached.values()]);
    const fillers = await fillerStatements(session, alongside.filled);
    await step.run([...keys, ...plan.small.map(alterInPlace), ...swaps, ...alongside.alter, ...fillers]);
    const ours = new Map(dependents.map(({ view, statements }) => [view ?? '', statements.slice(1)]));
    await step.run(attachViews(views, ours));
    await remake(
      step,
      dependents.filter(({ view }) => view === null),
    );
    await dropNumberText(session, widenings);
  };
  return exclusively(database, lease, work, passes);
}

async function swapsOf(session: Session, { big }: Plan, tables: ReadonlySet<string>): Promise<string[]> {
  const statements: string[] = [];
  const wanted = new Set(big.flatMap(({ columns }) => columns.map(shadowColumn)));
  for (const table of tables) {
    const abandoned = (await abandonedColumns(session, table)).filter((name) => !wanted.has(name));
    statements.push(...abandoned.map((name) => `ALTER TABLE ${quoted(table)} DROP COLUMN ${quoted(name)}`));
  }
  for (const widening of big) {
    const renames = widening.isBeside ? [] : await renameIndexes(session.execute, widening);
    statements.push(...(await swapStatements(session, widening)), ...renames);
  }
  return statements;
}

/** Takes keys of ours to other resources off the columns: a wider one holds none any more. */
async function keysOn({ execute }: Session, widenings: readonly Widening[]): Promise<string[]> {
  const uses = widenings.flatMap(({ table, columns, isBeside }) =>
    isBeside ? [] : columns.map(({ source }) => [table.name, source] as const),
  );
  if (uses.length === 0) return [];
  const { rows } = await execute<{ statement: string }>(
    `SELECT DISTINCT format('ALTER TABLE %I DROP CONSTRAINT %I', used.table_name, conname) AS statement
     FROM ROWS FROM (unnest($1::text[]), unnest($2::text[])) AS used(table_name, column_name)
     JOIN pg_attribute ON attrelid = to_regclass(quote_ident(used.table_name)) AND attname = used.column_name
     JOIN pg_constraint ON conrelid = attrelid AND attnum = ANY(conkey)
     WHERE contype = 'f' AND starts_with(conname, '_sync_')`,
    [uses.map(([table]) => table), uses.map(([, column]) => column)],
  );
  return rows.map(({ statement }) => statement);
}

async function remake(step: ExclusiveStep, dependents: readonly Dependent[]): Promise<void> {
  for (const dependent of dependents) {
    try {
      await step.run(dependent.statements);
    } catch (error) {
      throw new RemakeError(dependent, error);
    }
  }
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

function usesOf({ table, columns }: Widening): TableColumns {
  return { table: table.name, columns: columns.map(({ source }) => source) };
}

/**
 * Beginnings of what the server says if something that depends on a column cannot follow its widening, takes too long to
 * be made again, or is not ours: syntax and rights, values, constraints, limits, dependencies, others' functions.
 */
const IN_USE = ['0A', '2BP01', '42', '22', '23', '44', '54', '57014', 'P0', '39', '38'];

function explained(error: unknown, widenings: readonly Widening[]): unknown {
  const cause = error instanceof SyncError ? error.cause : error;
  const code = causeCode(error);
  if (error instanceof InUse || !IN_USE.some((beginning) => code.startsWith(beginning))) return error;
  if (cause instanceof RemakeError) return inUse([cause.dependent], cause);
  const by = messageOf(cause);
  const columns = widenings.flatMap((widening) =>
    widening.isBeside ? [] : usesOf(widening).columns.map((column) => ({ table: widening.table.name, column, by })),
  );
  return columns.length === 0 ? error : new InUse(columns, [], cause);
}
