import type { Clock } from '../model/clock.ts';
import type { FilesSettings } from '../config/file-stores.ts';
import type { StoreAddress } from '../config/profile/file-fields.ts';
import type { ObjectStore } from './object-store.ts';

/** How the stores of a source are reached. */
type StoreSettings = Pick<FilesSettings, 'environment' | 'file_mode'>;

/** Stores, each opened with its first use and closed with all. */
interface OpenStores {
  /** Throws `ConfigError` if it cannot be used; the next who asks tries again. */
  at(address: StoreAddress, settings: StoreSettings): Promise<ObjectStore>;
  /** Aborts what is in progress in them. */
  close(): Promise<void>;
}

interface StoresOptions {
  clock: Clock;
  /** False for who makes nothing where nothing is. */
  isMade: boolean;
  /** Aborts what is in progress as well. */
  signal?: AbortSignal;
}

export function openStores({ clock, isMade, signal: outer }: StoresOptions): OpenStores {
  const closing = new AbortController();
  const signal = outer === undefined ? closing.signal : AbortSignal.any([closing.signal, outer]);
  const open = new Map<string, Promise<ObjectStore>>();
  return {
    at: (address, { environment: env, file_mode: fileMode }) => {
      const key = JSON.stringify(address);
      const store = open.get(key) ?? openObjectStore(address, { clock, env, signal, fileMode, isMade });
      open.set(key, store);
      store.catch(() => open.delete(key));
      return store;
    },
    close: async () => {
      closing.abort();
      for (const store of await Promise.allSettled(open.values())) {
        if (store.status === 'fulfilled') await store.value.close();
      }
    },
  };
}

/** What a store needs of the outside. */
interface StoreWorld {
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
