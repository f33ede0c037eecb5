import { readItem } from '../../extract/read-item.ts';
import { SyncError } from '../../model/errors.ts';
import type { Lane } from '../../model/vocabulary.ts';
import type { DeleteContext } from '../resource-context.ts';

/** Records that are tried before the path is called broken: one of them may be gone just as well. */
const CONTROLS = 3;

/**
 * Says why a 404 proves nothing, or null where it does: some record that is thought to be there must be found under
 * the same path, asked for after `since` (local epoch milliseconds). Where it is not, the path in the profile is wrong
 * or the credential must not read single records. Throws what reading a record throws.
 */
export async function probeItemPath(
  context: DeleteContext,
  since: number,
  gone: ReadonlySet<string>,
  lane: Lane,
): Promise<string | null> {
  const { proof, clock } = context;
  if (proof.at >= since) return null;
  const asking = proof.asking;
  if (asking !== null && asking.since >= since) return asking.verdict;
  const started = { since: clock.now(), verdict: readControls(context, gone, lane) };
  proof.asking = started;
  try {
    return await started.verdict;
  } finally {
    if (proof.asking === started) proof.asking = null;
  }
}

async function readControls(context: DeleteContext, gone: ReadonlySet<string>, lane: Lane): Promise<string | null> {
  const { proof } = context;
  const controls = await controlKeys(context, gone);
  if (controls.length === 0) return 'there is no other record to try the path of single records with';
  for (const key of controls) {
    const reading = await readControl(context, key, lane);
    if (reading === null) continue;
    proof.at = Math.max(proof.at, reading);
    return null;
  }
  return `the service says 404 or 410 for others too, such as ${controls[0]}: check item in the profile and what the credential may read`;
}

async function controlKeys({ warehouse, owned }: DeleteContext, gone: ReadonlySet<string>): Promise<readonly string[]> {
  const table = owned.shape?.tables[0];
  if (table === undefined) return [];
  const keys = await warehouse.liveSample(table, owned.resource, CONTROLS + 5);
  const others = keys.filter((key) => !gone.has(key));
  // From both ends and the middle: records that came together are often deleted together.
  return [...new Set([others.at(0), others.at(-1), others.at(others.length / 2)])].filter((key) => key !== undefined);
}

/** When it was asked for, where it is there. A record that has no path of its own says nothing. */
async function readControl(context: DeleteContext, key: string, lane: Lane): Promise<number | null> {
  try {
    const reading = await readItem(context.item, key, lane);
    return reading.isThere ? reading.requestedAt : null;
  } catch (error) {
    if (error instanceof SyncError && error.recovery === 'skip') return null;
    throw error;
  }
}
