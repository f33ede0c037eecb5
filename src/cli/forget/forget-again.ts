import type { App } from '../../app.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { syncedResources } from '../../serve/start-drain.ts';
import type { SourceSettings } from '../../settings/settings.ts';
import { readTables } from '../../state/column-catalog.ts';
import {
  askToForget,
  checkPrivacyKey,
  forgottenFingerprint,
  openRequests,
  rememberForgotten,
} from '../../state/forgotten.ts';
import { knownIds } from '../../sync/forget/traces.ts';
import { idsInDeliveries } from '../../trigger/drain/forget-deliveries.ts';
import type { RestoredParts } from '../../warehouse/database.ts';
import type { ForgottenRow } from '../../warehouse/own-tables.ts';
import type { CliContext } from '../command/context.ts';
import { eraseWhenFree } from './erase-when-free.ts';
import { finishForgetting } from './finish-forgetting.ts';

/**
 * Has a restored warehouse know of the records that were erased in the one that it replaces, and asks for those that are
 * in it to be erased again. Returns how many these are. Throws `ConfigError('privacy_key')` if the settings cannot tell
 * them.
 */
export async function carryForgotten(
  { clock, version }: Pick<CliContext, 'clock' | 'version'>,
  source: SourceSettings,
  restored: RestoredParts,
  forgotten: readonly ForgottenRow[],
): Promise<number> {
  const { warehouse } = restored;
  const { name, privacy_key: key } = source;
  await warehouse.apply(rememberForgotten(warehouse.own, forgotten));
  await checkPrivacyKey(warehouse.own, { source: name, key });
  if (key === undefined) return 0;
  const at = timestampText(clock.now());
  let found = 0;
  for (const [resource, rows] of Map.groupBy(forgotten, (row) => row.resource)) {
    const fingerprints = new Set(rows.map(({ fingerprint }) => fingerprint));
    const isErased = (id: string): boolean => fingerprints.has(forgottenFingerprint(key, name, resource, id));
    const ids = await idsThat(isErased, source, restored, resource);
    found += ids.length;
    const asked = { resource, ids, version, at };
    if (ids.length > 0) await warehouse.apply(askToForget(warehouse.own, { source: name, key }, asked));
  }
  return found;
}

async function idsThat(
  isErased: (id: string) => boolean,
  source: SourceSettings,
  { warehouse, inbox }: RestoredParts,
  resource: string,
): Promise<string[]> {
  const profile = source.profile.resources[resource];
  if (profile === undefined) return [];
  const ids = new Set<string>();
  const shape = await readTables(warehouse, resource);
  for await (const id of knownIds({ warehouse, resource, shape, profile })) if (isErased(id)) ids.add(id);
  if (inbox === null) return [...ids];
  const rules = { webhooks: source.profile.webhooks, resources: syncedResources(source) };
  for await (const id of idsInDeliveries({ inbox, rules, resource })) if (isErased(id)) ids.add(id);
  return [...ids];
}

/** Erases whatever a warehouse was asked to forget and still has. Returns the resources of which something is left. */
export async function eraseAgain(context: CliContext, app: App): Promise<string[]> {
  const left: string[] = [];
  for (const resource of Object.keys(app.source.profile.resources)) {
    if ((await openRequests(app.warehouse.own, resource)).length === 0) continue;
    const isErased = await eraseWhenFree(context, app, resource);
    const isDone = isErased && (await finishForgetting(context, app, resource)).isClean;
    if (!isDone) left.push(resource);
  }
  return left;
}
