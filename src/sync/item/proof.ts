import type { ItemSource } from '../../extract/read-item.ts';
import type { ApiClient } from '../../http/client.ts';
import type { Clock } from '../../model/clock.ts';
import type { SourceRecord } from '../../model/json.ts';
import type { FieldKinds } from '../../shape/records/field-kinds.ts';
import type { ResourceProfile } from '../../source/profile.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import type { OwnedResource } from '../../state/owned-resource.ts';

/** What a look into the listing has met. */
export interface Lookup {
  records: ReadonlyMap<string, SourceRecord>;
  /** Local epoch milliseconds just before its first page was asked for. */
  requestedAt: number;
  /** True where the listing was seen to its end, was not empty and all had an id: what was not met is not listed. */
  isWhole: boolean;
}

/** What is known of the path of single records. Shared by all who read them, for as long as the process runs. */
export interface ItemProof {
  /** When a record was last asked for that was there; local epoch milliseconds. Whoever reads one may put it forward. */
  at: number;
  /** A control reading that is under way, and since when. */
  asking: { since: number; verdict: Promise<string | null> } | null;
  /** The fields that were the same in the listing and in a record read alone. */
  fields: FieldKinds;
  /** How a record read alone was another one than the listed, and when that was found; null where none was. */
  fault: { detail: string; at: number } | null;
  /** Comparisons with the listing are made one after the other: the first often answers the others as well. */
  comparing: Promise<unknown>;
  /** A look into the listing that is under way or was the last one. */
  looking: { startedAt: number; since: number | null; found: Promise<Lookup> } | null;
}

/** What reading a record alone and comparing it with the listing needs. */
export interface ItemContext {
  warehouse: Warehouse;
  owned: OwnedResource;
  profile: ResourceProfile;
  clock: Clock;
  item: ItemSource;
  proof: ItemProof;
}

/** By the client, which belongs to one source and one profile. */
const proofs = new WeakMap<ApiClient, Map<string, ItemProof>>();

/** The proof of a resource's path, unproved at first. */
export function itemProof(client: ApiClient, resource: string): ItemProof {
  const known = proofs.get(client) ?? new Map<string, ItemProof>();
  proofs.set(client, known);
  const nothing = { at: -Infinity, asking: null, fault: null, comparing: Promise.resolve(), looking: null };
  const proof = known.get(resource) ?? { ...nothing, fields: new Map() };
  known.set(resource, proof);
  return proof;
}
