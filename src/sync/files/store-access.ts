import type { Clock } from '../../model/clock.ts';
import type { ObjectStore } from '../../object-store/object-store.ts';
import type { FilesSettings } from '../../settings/file-stores.ts';
import type { StoreAddress } from '../../source/file-fields.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';

/** A source's files, for what looks after them without asking the service. */
export interface KeptFiles {
  warehouse: Warehouse;
  settings: FilesSettings;
  /** Throws `ConfigError` if it cannot be used, or is not there. */
  storeAt: (address: StoreAddress) => Promise<ObjectStore>;
  clock: Clock;
  signal: AbortSignal;
}
