import { Readable } from 'node:stream';
import { type FilesSettings, storesOf } from '../config/file-stores.ts';
import { type NamedContent, namedContents } from '../database/state/files/shown-files.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import { objectMissing } from '../object-store/object-store.ts';
import { openStores } from '../object-store/open-stores.ts';
import type { StatusParts } from './status/source-status.ts';

/** A content that a row of a copy names. */
export type ShownFile = Omit<NamedContent, 'store'>;

/** The contents of files of the sources that are served, for who looks at them. */
export interface ShownFiles {
  /** Null if no row names it, or there is no such source. */
  find(source: string, sha256: string): Promise<ShownFile | null>;
  /** Throws `SyncError` (`file_missing`) if no store that is in use has it, the stream if what it has is of another length. */
  read(source: string, sha256: string): Promise<Readable>;
}

interface ShownSource {
  source: { files: FilesSettings };
  read: StatusParts['read'];
}

interface ShownFilesOptions {
  /** Of the sources that are served just now. */
  source: (name: string) => ShownSource | undefined;
  clock: Clock;
}

/** Opens stores with their first use, to read alone: the lane of files has its own. */
export function createShownFiles({
  source: sourceOf,
  clock,
}: ShownFilesOptions): ShownFiles & { close(): Promise<void> } {
  const stores = openStores({ clock, isMade: false });
  const contentsOf = async (name: string, sha256: string): Promise<NamedContent[]> => {
    const shown = sourceOf(name);
    return shown === undefined ? [] : shown.read(({ own }) => namedContents(own, sha256));
  };
  return {
    find: async (name, sha256) => {
      const [content] = await contentsOf(name, sha256);
      return content === undefined ? null : { sha256, bytes: content.bytes, type: content.type };
    },
    read: async (name, sha256) => {
      const files = sourceOf(name)?.source.files;
      const contents = await contentsOf(name, sha256);
      for (const address of files === undefined ? [] : storesOf(files)) {
        const content = contents.find(({ store: named }) => named === address.name);
        if (files === undefined || content === undefined) continue;
        const store = await stores.at(address, files);
        if ((await store.head(sha256)) !== null) return whole(await store.read(sha256), content.bytes);
      }
      throw objectMissing(sha256);
    },
    close: () => stores.close(),
  };
}

/** Its reader must not take a part for the whole. */
function whole(stream: AsyncIterable<Buffer>, bytes: number): Readable {
  async function* pieces(): AsyncGenerator<Buffer> {
    let at = 0;
    for await (const piece of stream) {
      at += piece.length;
      if (at > bytes) break;
      yield piece;
    }
    if (at === bytes) return;
    throw new SyncError('file_missing', `the object does not have ${bytes} bytes`, {
      recovery: 'stop',
      hint: 'content-sync files verify --repair fetches what is not whole again',
    });
  }
  return Readable.from(pieces(), { objectMode: false });
}
