import { MEMORY_USES } from './vocabulary.ts';

/** How much memory a process may take to be fast: `low` stands for a host that has little. */
export type MemoryUse = (typeof MEMORY_USES)[number];

let current: MemoryUse = 'normal';

/** That of this process. */
export function memoryUse(): MemoryUse {
  return current;
}

/** Holds for all that is opened from now on. */
export function setMemoryUse(use: MemoryUse): void {
  current = use;
}
