import { keyParts } from '../../extract/key-parts.ts';
import { takenIn } from '../../shape/records/as-record.ts';
import { fieldAt } from '../../shape/records/field-at.ts';
import { parentOf } from '../../source/partition-fields.ts';
import type { Profile } from '../../source/profile.ts';
import { keyIn } from '../item/compare-alone.ts';
import { firstPage } from '../listing-walk.ts';
import type { RequestContext } from '../resource-context.ts';

/**
 * One of the listings of a resource that has several: the first value, or that of the first record that the service
 * lists of its parent. Null if there is none, or the resource has one listing. Throws what walking throws.
 */
export async function samplePartition(
  context: RequestContext,
  resources: Profile['resources'],
): Promise<string | null> {
  const { partitions } = context.profile;
  if (partitions !== null && 'values' in partitions) return partitions.values[0] ?? null;
  const parent = resources[parentOf(context.profile) ?? ''];
  if (partitions === null || parent === undefined) return null;
  const above = { ...context, profile: parent };
  const page = await firstPage({ ...above, partition: await samplePartition(above, resources) }, 'incremental', {});
  const [record] = takenIn(page?.records ?? []);
  if (record === undefined) return null;
  const field =
    partitions.parent_id === null ? keyIn(record.value, parent) : fieldAt(record.value, partitions.parent_id);
  if (typeof field !== 'string' && typeof field !== 'number') return null;
  return partitions.parent_id === null ? keyParts(parent, String(field)).id : String(field);
}
