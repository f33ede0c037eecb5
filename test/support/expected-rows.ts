/** A parsed record, as plain JSON. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** The same text for the same value, whatever the order of its keys. */
export function canonicalJson(value: Json): string {
  return JSON.stringify(value, (_key, each: Json) =>
    typeof each === 'object' && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  );
}
