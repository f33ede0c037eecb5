import type { ApiClient } from '../../http/client.ts';
import type { SourceRecord } from '../../model/json.ts';
import type { FieldKinds } from '../../shape/records/record-difference.ts';
import type { Warning } from '../warnings.ts';

/** Records found by a look into the listing. */
export interface Lookup {
  records: ReadonlyMap<string, SourceRecord>;
  /** Records that the listing shows as deleted, by key. */
  tombstones: ReadonlyMap<string, SourceRecord>;
  /** Local epoch milliseconds just before its first page was asked for. */
  requestedAt: number;
  /** True if it was read to its end, was not empty and all records had an id: the others are not listed. */
  isWhole: boolean;
}

/** Knowledge about the path of single records; shared by all who read them, for as long as the process runs. */
export interface ItemProof {
  /** When a record that exists was last asked for; local epoch milliseconds. Every reader may advance it. */
  at: number;
  /** A control reading that is under way, and since when. */
  asking: { since: number; verdict: Promise<string | null> } | null;
  /** The fields that were the same in the listing and in a record read alone. */
  fields: FieldKinds;
  /**
   * How a record read alone differed from the listed one, and when that was found; null if none did. `isMore`: it only
   * has further fields, so that it still shows whether the record exists.
   */
  fault: { detail: string; isMore: boolean; at: number } | null;
  /** Comparisons with the listing are made one after the other: the first often answers the others as well. */
  comparing: Promise<unknown>;
  /** A look into the listing that is under way or was the last one. */
  looking: { partition: string | null; startedAt: number; since: number | null; found: Promise<Lookup> } | null;
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

/** Reported in every run after a record that was read alone turned out to differ from the listed one. */
export function itemWarnings({ fault }: ItemProof, scrub: (text: string) => string): Warning[] {
  if (fault === null || fault.isMore) return [];
  return [
    {
      code: 'item_unproved',
      message: scrub(`records read alone are not believed: ${fault.detail}`),
      hint: 'set item, item_query and item_record so that the answer is the listed record, or `item: null`; `accept: [item]` takes what is read alone as it is',
    },
  ];
}
