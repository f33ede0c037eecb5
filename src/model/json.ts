// JSON values as the program holds them: numbers keep digits that a double would lose.

/**
 * A JSON number whose digits a double cannot represent (integers beyond 2^53, long decimals, large exponents). It is the
 * object of `JSON.rawJSON`, so `JSON.stringify` writes the source digits unchanged.
 */
export interface ExactNumber {
  readonly rawJSON: string;
}

export type JsonObject = { [key: string]: JsonValue };
export type JsonValue = null | boolean | number | string | ExactNumber | JsonValue[] | JsonObject;

/** The service's text for a time, and the time in epoch milliseconds. */
export interface Updated {
  text: string;
  at: number;
  /** The later time that the text may mean, at a change to or from daylight saving time. */
  latest?: number;
}

/** One record as the service sent it: its parsed value and its part of the page. */
export interface SourceRecord {
  value: JsonValue;
  /**
   * The exact source of the record in UTF-8, a view into the page. Bytes are hashed and stored unchanged, and need half
   * the memory of a string.
   */
  bytes: Buffer;
  /** The source as it was received, if `bytes` lacks hidden fields. */
  asSent?: Buffer;
  /** Why the record is rejected; then it has no value. Absent for a valid record. */
  rejection?: { readonly reason: string; readonly detail: string };
  /** True if the profile's filter excludes the record, so that it gets no row. */
  isFilteredOut?: boolean;
}

declare global {
  /** Part of Node 24 that TypeScript's library does not declare yet (proposal "JSON.parse source text access"). */
  interface JSON {
    rawJSON(source: string): ExactNumber;
    isRawJSON(value: unknown): value is ExactNumber;
    parse(text: string, reviver: (key: string, value: JsonValue, context: { source?: string }) => JsonValue): JsonValue;
  }
}
