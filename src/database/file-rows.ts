/**
 * `waiting`: to be fetched, for the first time or anew; `stored`: here, as it was served last; `failed`: tried again at
 * `due_at`; `refused`: not fetched until its record or the profile changes; `gone`: the service no longer has it.
 */
export const FILE_STATUSES = ['waiting', 'stored', 'failed', 'refused', 'gone'] as const;
export type FileStatus = (typeof FILE_STATUSES)[number];

/** One content that a file of a record had, or that is to be fetched for the first time. */
export interface FileRow {
  resource: string;
  record_id: string;
  /** The profile's name of the file. */
  field: string;
  /** From 0, where the record has a list of addresses. */
  position: number;
  /** From 1: the contents of this file in the order in which they were seen. */
  version: number;
  /** Where the content came from, or is to come from; without credentials of ours. */
  url: string;
  /** Another address that the record has by now, from which nothing has come yet. */
  next_url: string | null;
  status: FileStatus;
  /** Name of the store that has the content (`StoreAddress.name`); null before the first one. */
  store: string | null;
  /** All about the content is null before the first one; a file that waits or failed keeps what was seen last. */
  sha256: string | null;
  bytes: number | null;
  type: string | null;
  width: number | null;
  height: number | null;
  etag: string | null;
  last_modified: string | null;
  /** `_hash` of the row in which this address was read. */
  record_hash: string;
  /** That have failed since the last that did not. */
  attempts: number;
  /** When it is asked for; null if it is not, until its record changes. */
  due_at: string | null;
  /** Why it failed, is refused or gone; null otherwise. */
  code: string | null;
  error: string | null;
  /** When the service was last found to serve this content. */
  fetched_at: string | null;
  valid_from: string;
  /** When another content took its place, or the record no longer showed it; null for what is shown now. */
  valid_to: string | null;
}

/** One content in a store, whatever shows it. */
export interface FileObjectRow {
  store: string;
  sha256: string;
  bytes: number;
  type: string;
  width: number | null;
  height: number | null;
  stored_at: string;
  /** When it was last read and found right; null if it never was. */
  checked_at: string | null;
  /** 1 if it was not found, or not whole. */
  missing: number;
}

/** How far the records of a resource were looked at for their files. */
export interface FilePassageRow {
  resource: string;
  /** Fingerprint of what the profile says of files. */
  settings: string;
  /** When the last look began, and the last one at all records. */
  looked_at: string;
  full_at: string;
}

/** By which name this database marks the stores that are its own. */
export interface FileOwnerRow {
  /** Always 1. */
  id: number;
  owner: string;
}
