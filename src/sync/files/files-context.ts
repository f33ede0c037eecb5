import type { Downloader } from '../../http/download/create-downloader.ts';
import type { ObjectStore } from '../../object-store/object-store.ts';
import type { FilesSettings } from '../../settings/file-stores.ts';
import type { StoreAddress } from '../../source/store-address.ts';
import type { SourceContext } from '../resource-context.ts';

/** What the lane of files needs of a source. */
export interface FilesContext extends Pick<
  SourceContext,
  'client' | 'profile' | 'listing' | 'warehouse' | 'clock' | 'scrub'
> {
  settings: FilesSettings;
  downloader: Downloader;
  /** Opened with its first use. Throws `ConfigError`, and `SyncError` while it cannot be reached. */
  storeAt: (address: StoreAddress) => Promise<ObjectStore>;
}
