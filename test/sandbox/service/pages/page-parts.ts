import type { PageStart } from '../../../../src/sandbox/records/collection.ts';

/** A parsed listing request. */
export interface PageQuery {
  url: URL;
  limit: number;
  /** Epoch milliseconds, inclusive; null without a filter. */
  since: number | null;
  start: PageStart;
  /** 1 for the first page of a walk. */
  number: number;
  /** The cursor that was asked with. */
  cursor: string | null;
}

/** One page before it is bytes. */
export interface PageParts {
  query: PageQuery;
  /** The JSON texts of the records. */
  records: readonly Uint8Array[];
  /** The cursor of the page after it; null at the end. Page and offset styles do not send it. */
  next: string | null;
  /** Records in the whole listing; null if the service does not tell. */
  total: number | null;
  /** Body fields by name as JSON text, over those of the style; null leaves a field out. `data` may be given, too. */
  fields?: Readonly<Record<string, string | null>>;
  /** Makes the next address out of the right path and query; the right one is absolute. */
  nextAddress?: (pathAndQuery: string) => string;
  /** Further headers. */
  headers?: Readonly<Record<string, string | string[]>>;
}
