import type { JsonValue } from '../../model/json.ts';

/** A result as jsonb takes it, which knows neither NUL nor half a surrogate pair. */
export function storable(value: unknown): JsonValue {
  const text = JSON.stringify(value ?? null, (_, part: unknown) =>
    typeof part === 'string' ? part.toWellFormed().replaceAll('\0', '\u{FFFD}') : part,
  );
  const read: JsonValue = JSON.parse(text);
  return read;
}
