/** Whether the value is a map of YAML or JSON, and no list. */
export function isPlainMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What stands under a key of a map or a position of a list; undefined where nothing does. */
export function partAt(value: unknown, part: string | number): unknown {
  if (Array.isArray(value)) return typeof part === 'number' ? value[part] : undefined;
  return isPlainMap(value) && Object.hasOwn(value, part) ? value[part] : undefined;
}
