import type { Clock } from '../model/clock.ts';
import type { StoreAddress } from '../source/file-fields.ts';
import type { ObjectStore } from './object-store.ts';

/** What a store needs of the outside. */
export interface StoreWorld {
  clock: Clock;
  /** Who asks a bucket, and where it is: `AWS_…`. */
  env: NodeJS.ProcessEnv;
  signal: AbortSignal;
  /** Rights of the files, such as `0o640`. */
  fileMode: number;
  /** False to make nothing where nothing is; true if absent. */
  isMade?: boolean;
}

/** Opens a store; what is only needed for its kind is loaded with it. Throws `ConfigError` if it cannot be used. */
export async function openObjectStore(address: StoreAddress, world: StoreWorld): Promise<ObjectStore> {
  if (address.kind === 's3') {
    const { openS3Store } = await import('./s3-store.ts');
    return openS3Store(address, world);
  }
  const { openDiskStore } = await import('./disk-store.ts');
  return openDiskStore({ ...world, ...address, isMade: world.isMade ?? true });
}
