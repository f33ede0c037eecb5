/** The same value with every text in it passed through `scrub`. For data of JSON's kinds. */
export function scrubTexts<T>(value: T, scrub: (text: string) => string): T;
export function scrubTexts(value: unknown, scrub: (text: string) => string): unknown {
  if (typeof value === 'string') return scrub(value);
  if (Array.isArray(value)) return value.map((part: unknown) => scrubTexts(part, scrub));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, scrubTexts(part, scrub)]));
}
