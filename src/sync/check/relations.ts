import type { ResourceShape } from '../../model/table.ts';
import { visibleText } from '../../model/visible-text.ts';
import type { Relations } from '../../source/profile.ts';
import { unresolved, resolveRelations } from '../../views/relations.ts';
import type { WarehouseReader } from '../../warehouse/reading.ts';
import type { CheckFinding } from '../../checks/finding.ts';

/**
 * Whether the columns of the profile's relations are there, and how many of their references lead to no live record.
 * Nothing before anything was copied.
 */
export async function relationFindings(
  reader: Pick<WarehouseReader, 'dangling'>,
  shapes: readonly ResourceShape[],
  relations: Relations,
): Promise<CheckFinding[]> {
  if (shapes.length === 0) return [];
  const found: CheckFinding[] = [];
  for (const [source, target] of Object.entries(relations)) {
    const name = `${source} → ${target}`;
    const [relation] = resolveRelations({ [source]: target }, shapes);
    if (relation === undefined) {
      const detail = `${name} is left out: ${unresolved(source, target, shapes)}`;
      found.push({ check: 'relation', status: 'warn', detail, hint: LEFT_OUT });
      continue;
    }
    const { from, to } = relation;
    const counted = await reader.dangling({
      table: from.table.name,
      column: from.column,
      isMarked: from.table.path.length === 0,
      target: { table: to.table.name, key: to.column },
    });
    found.push(danglingFinding(name, counted));
  }
  return found;
}

const LEFT_OUT =
  'a column comes with its first value, and a list with its first element; where it never will, correct the relation in the profile, or set it to null';

function danglingFinding(
  name: string,
  { references, dangling, example }: Awaited<ReturnType<WarehouseReader['dangling']>>,
): CheckFinding {
  if (dangling === 0)
    return { check: 'relation', status: 'ok', detail: `${name}: all ${references} references lead to a record` };
  const detail = `${name}: ${dangling} of ${references} references lead to no live record, such as ${visibleText(example ?? '')}`;
  const hint =
    dangling === references
      ? 'they may be keys of something else: correct the relation in the profile'
      : 'their records are deleted, or not to be seen by this credential; joins leave these rows out';
  return { check: 'relation', status: 'warn', detail, hint };
}
