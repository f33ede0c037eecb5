import { escapeIdentifier as quoted } from 'pg';
import type { TableShape } from '../../../model/table.ts';
import { columnText, type Reference } from '../../key-plan.ts';
import { PARENT_KEY, parentKey, parentTable } from '../../parent-table.ts';
import type { KeyPlan } from '../../key-plan.ts';
import type { LeaseProof } from '../../warehouse.ts';
import type { Database } from '../connection/transact.ts';
import { nameBehind } from '../widening/ddl.ts';
import { alone } from './one-by-one.ts';
import type { Standing, StandingKey } from './standing-keys.ts';

/** How keys of ours begin that lead to another resource. */
export const REFERENCE_KEY = '_sync_reference_';

interface ForeignKey extends StandingKey {
  /** What stands behind `ADD CONSTRAINT` and its name. */
  text: string;
}

/** Since this version a key can be told without being held: NOT ENFORCED. */
const NOT_ENFORCED_SINCE = 180_000;

/**
 * The keys of child tables to their parents, and those to other resources, whose records may be missing. Where the server
 * knows keys that are told and not held, both are so: all rows of a record are written in one transaction, and to look
 * each of them up would cost a third of what it takes to write it. Elsewhere those to parents are held.
 */
export async function makeForeignKeys(
  database: Database,
  plan: KeyPlan,
  lease: () => LeaseProof,
  { version, keys: standing }: Pick<Standing, 'version' | 'keys'>,
): Promise<void> {
  const mayTell = version >= NOT_ENFORCED_SINCE;
  const wanted = [...parentKeys(plan.tables, mayTell), ...(mayTell ? referenceKeys(plan.references) : [])];
  for (const { table, name } of standing.filter((key) => !wanted.some((other) => isSame(key, other)))) {
    await alone(database, lease, `ALTER TABLE ${quoted(table)} DROP CONSTRAINT ${quoted(name)}`);
  }
  for (const { table, name, text } of wanted.filter((key) => !standing.some((other) => isSame(key, other)))) {
    await alone(database, lease, `ALTER TABLE ${quoted(table)} ADD CONSTRAINT ${quoted(name)} ${text}`);
  }
}

function isSame(a: StandingKey, b: StandingKey): boolean {
  return a.table === b.table && a.name === b.name && a.target === b.target;
}

function parentKeys(tables: readonly TableShape[], mayTell: boolean): ForeignKey[] {
  // Deferred: in which order the tables of a record are written is nobody's concern.
  const how = mayTell ? 'NOT ENFORCED' : 'DEFERRABLE INITIALLY DEFERRED';
  return tables.flatMap((table) => {
    const parent = parentTable(table, tables);
    if (parent === null) return [];
    const text = `FOREIGN KEY (${list(parentKey(table))}) REFERENCES ${quoted(parent.name)} (${list(parent.key)}) ${how}`;
    return [{ table: table.name, name: nameBehind(PARENT_KEY, table.name), target: parent.name, text }];
  });
}

/** Of texts: keys are, and nothing else can point to them. */
function referenceKeys(references: readonly Reference[]): ForeignKey[] {
  return references.flatMap(({ table, column, to }): ForeignKey[] => {
    if (to === null || !isText(table, column)) return [];
    const name = nameBehind(REFERENCE_KEY, columnText({ table, column }));
    const text = `FOREIGN KEY (${quoted(column)}) REFERENCES ${quoted(to.table)} (${quoted(to.column)}) NOT ENFORCED`;
    return [{ table: table.name, name, target: to.table, text }];
  });
}

function isText({ key, columns }: TableShape, name: string): boolean {
  return key[0] === name || columns.some((column) => column.name === name && column.type === 'text');
}

function list(columns: readonly string[]): string {
  return columns.map((name) => quoted(name)).join(', ');
}
