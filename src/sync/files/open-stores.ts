import type { Clock } from '../../model/clock.ts';
import { openObjectStore } from '../../object-store/open-object-store.ts';
import type { ObjectStore } from '../../object-store/object-store.ts';
import type { FilesSettings } from '../../settings/file-stores.ts';
import type { StoreAddress } from '../../source/store-address.ts';

/** The stores of a source, each opened with its first use; nothing is made where nothing is. */
export interface OpenStores {
  at(address: StoreAddress): Promise<ObjectStore>;
  close(): Promise<void>;
}

/** For whoever looks after files and fetches none. */
export function openStores(
  { clock, signal }: { clock: Clock; signal: AbortSignal },
  { environment: env, file_mode: fileMode }: FilesSettings,
): OpenStores {
  const opened = new Map<string, Promise<ObjectStore>>();
  return {
    at: (address) => {
      const known = opened.get(address.name);
      if (known !== undefined) return known;
      const store = openObjectStore(address, { clock, env, signal, fileMode, isMade: false });
      opened.set(address.name, store);
      return store;
    },
    close: async () => {
      for (const store of opened.values()) await (await store.catch(() => null))?.close();
    },
  };
}
