import { keysOfPath } from '../../model/body-path.ts';
import type { SourcePath } from '../../model/table.ts';

/** Means "each element of the array" in a path. */
export const EACH = '[]';
/** Ends the path of the column that keeps the fields for which a table has no column left. */
export const OVERFLOW = '[overflow]';
/** A source key that looks like one of the two (or like its escaped form) is escaped by a backslash. */
const LIKE_A_MARK = /^\\*\[(overflow)?\]$/;

/** A source key as part of a path. */
export function pathPart(key: string): string {
  return LIKE_A_MARK.test(key) ? `\\${key}` : key;
}

/** The source key that `pathPart` wrote. */
export function sourceKey(part: string): string {
  return LIKE_A_MARK.test(part) ? part.slice(1) : part;
}

/** The keys of a path without the marks, which names are made of. */
export function keysOf(path: SourcePath): string[] {
  return path.filter((part) => part !== EACH).map(sourceKey);
}

/** A field's path in a profile as the path of its column; null for an invalid path. */
export function columnPathOf(field: string): SourcePath | null {
  return keysOfPath(field)?.map(pathPart) ?? null;
}

/** The path as people write it: dotted; as a JSON array if a key would make that ambiguous. */
export function pathText(path: SourcePath): string {
  const keys = keysOf(path);
  return keys.some((key) => key.includes('.') || key.includes('"')) ? JSON.stringify(keys) : keys.join('.');
}

/** The keys that `pathText` wrote. */
export function keysOfText(text: string): string[] {
  if (!text.startsWith('["')) return text.split('.');
  const keys: unknown = JSON.parse(text);
  return Array.isArray(keys) ? keys.map(String) : [text];
}
