/**
 * A JSON number whose digits a double would not give back (integers beyond 2^53, long decimals, exponents out of
 * range). It is the object that `JSON.rawJSON` makes, so `JSON.stringify` writes the source digits back unchanged.
 */
export interface ExactNumber {
  readonly rawJSON: string;
}

export type JsonObject = { [key: string]: JsonValue };
export type JsonValue = null | boolean | number | string | ExactNumber | JsonValue[] | JsonObject;

/** The service's own text for a moment, and the moment in epoch milliseconds. */
export interface Updated {
  text: string;
  at: number;
  /** The later moment that it may mean, if clocks were put back or forward. */
  latest?: number;
}

/** One record as the service sent it: its parsed value and its own slice of the page. */
export interface SourceRecord {
  value: JsonValue;
  /**
   * The exact source of the record, UTF-8; a view into the page, nothing is re-serialised. Bytes rather than a string:
   * they are hashed and stored as they are, and half the size.
   */
  bytes: Buffer;
  /** Its source as it came, if fields of it are hidden: `bytes` are then what is left of it. */
  asSent?: Buffer;
  /** Why it cannot become a row: it has no value and is set aside with its body. Absent for one that can. */
  aside?: { readonly reason: string; readonly detail: string };
  /** True if the profile's filter leaves it out: the service lists it, and it gets no row. */
  isLeftOut?: boolean;
}

declare global {
  /** Part of Node 24 that TypeScript's library does not declare yet (proposal "JSON.parse source text access"). */
  interface JSON {
    rawJSON(source: string): ExactNumber;
    isRawJSON(value: unknown): value is ExactNumber;
    parse(text: string, reviver: (key: string, value: JsonValue, context: { source?: string }) => JsonValue): JsonValue;
  }
}
