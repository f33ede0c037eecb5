// Opens file stores by their addresses.
import type { FilesSettings, StoreAddress } from '../config/profile/file-fields.ts';
import type { Clock } from '../model/clock.ts';
import type { ObjectStore } from './object-store.ts';

/** The stores of a source; each is opened when it is first used. */
interface OpenStores {
  /** Throws `ConfigError` if the store cannot be used; the next call tries again. */
  at(address: StoreAddress): Promise<ObjectStore>;
  /** Aborts requests in progress. */
  close(): Promise<void>;
}

interface StoresOptions {
  clock: Clock;
  /** False to create nothing that does not exist. */
  mayCreate: boolean;
  /** Aborts requests in progress, like `close`. */
  signal?: AbortSignal;
}

export function openStores(
  { environment: env, file_mode: fileMode }: FilesSettings,
  { clock, mayCreate, signal: outer }: StoresOptions,
): OpenStores {
  const closing = new AbortController();
  const signal = outer === undefined ? closing.signal : AbortSignal.any([closing.signal, outer]);
  const open = new Map<string, Promise<ObjectStore>>();
  return {
    at: (address) => {
      const store = open.get(address.name) ?? openObjectStore(address, { clock, env, signal, fileMode, mayCreate });
      open.set(address.name, store);
      store.catch(() => open.delete(address.name));
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

/** Dependencies of a store. */
interface StoreDependencies {
  clock: Clock;
  /** The access to a bucket: `AWS_…`. */
  env: NodeJS.ProcessEnv;
  signal: AbortSignal;
  /** Mode of the files, such as `0o640`. */
  fileMode: number;
  mayCreate: boolean;
}

/** Opens a store, and loads only the code of its kind. Throws `ConfigError` if it cannot be used. */
export async function openObjectStore(address: StoreAddress, dependencies: StoreDependencies): Promise<ObjectStore> {
  if (address.kind === 's3') {
    const { openS3Store } = await import('./s3-store.ts');
    return openS3Store(address, dependencies);
  }
  const { openDiskStore } = await import('./disk-store.ts');
  return openDiskStore({ ...dependencies, ...address });
}
