import { existsSync, statfsSync } from 'node:fs';

const MEMORY = '/dev/shm';
const ROOM_BYTES = 4 * 2 ** 30;

/**
 * A folder in memory with room for the files of all tests; null where there is none. They wait for the disk more than for
 * anything else, a file system on a disk takes a quarter of Postgres's own time, and no test cuts the power.
 */
export function memoryFolder(): string | null {
  if (!existsSync(MEMORY)) return null;
  const { bavail, bsize } = statfsSync(MEMORY);
  return bavail * bsize >= ROOM_BYTES ? MEMORY : null;
}
