import type { ResourceProfile } from '../source/profile.ts';

/** A record's key taken apart. */
export interface KeyParts {
  /** The listing that it comes from; null if the resource has one only, or the key does not say. */
  partition: string | null;
  /** The service's own id; null if several fields make it. */
  id: string | null;
}

/** Takes apart what `recordKey` made (`shape/records/record-key.ts`). */
export function keyParts({ partitions, id }: Pick<ResourceProfile, 'partitions' | 'id'>, key: string): KeyParts {
  if (typeof id === 'string') return { partition: null, id: key };
  if (partitions === null) return { partition: null, id: null };
  const parts = partsIn(key);
  const at = id.indexOf(partitions.field);
  const others = parts.filter((_, index) => index !== at);
  return { partition: textOf(parts[at]), id: others.length === 1 ? textOf(others[0]) : null };
}

function partsIn(key: string): readonly unknown[] {
  try {
    const parts: unknown = JSON.parse(key);
    return Array.isArray(parts) ? parts : [];
  } catch {
    return [];
  }
}

function textOf(part: unknown): string | null {
  return typeof part === 'string' ? part : null;
}
