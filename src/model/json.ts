// The types of JSON values and of records, for all layers. A record must be stored exactly as the service sent it, but
// `JSON.parse` would change the number 9007199254740993 to 9007199254740992. So such numbers keep their digits.

/**
 * A JSON number whose digits a double cannot represent (integers beyond 2^53, long decimals, large exponents). It is the
 * object of `JSON.rawJSON`, so `JSON.stringify` writes the source digits unchanged.
 */
export interface ExactNumber {
  readonly rawJSON: string;
}

export type JsonObject = { [key: string]: JsonValue };
export type JsonValue = null | boolean | number | string | ExactNumber | JsonValue[] | JsonObject;

/** When a record was changed last: the text of the service, and the time in epoch milliseconds. */
export interface ChangeTime {
  text: string;
  at: number;
  /** The later time that the text may mean, if it is a local time at a change of daylight saving time. */
  latest?: number;
}

/** One record as the service sent it: its parsed value and its part of the page. */
export interface SourceRecord {
  value: JsonValue;
  /** The JSON text of the record in UTF-8, a part of the page. Bytes need half the memory of a string. */
  bytes: Buffer;
  /** The text as it was received, if the profile hides fields, which `bytes` does not have. */
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
