import { Readable } from 'node:stream';
import { storesOf } from '../config/file-stores.ts';
import { type NamedContent, namedContents } from '../database/state/files.ts';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import { objectMissing } from '../object-store/object-store.ts';
import { openStores } from '../object-store/open-stores.ts';
import type { SourceSupervisor } from './source-supervisor.ts';

/** A content that a row of a copy names. */
export type ShownFile = Omit<NamedContent, 'store'>;

/** The contents of copied files, for viewers of the page. */
export interface ShownFiles {
  /** Null if no row names it, or there is no such source. */
  find(source: string, sha256: string): Promise<ShownFile | null>;
  /** Throws `SyncError` (`file_missing`) if no configured store has it, the stream if its content has another length. */
  read(source: string, sha256: string): Promise<Readable>;
}

/** Opens stores with their first use, only to read. */
export function createShownFiles(
  supervisorOf: (source: string) => SourceSupervisor | undefined,
  clock: Clock,
): ShownFiles & { close(): Promise<void> } {
  const stores = openStores({ clock, isMade: false });
  const contentsOf = async (source: string, sha256: string): Promise<NamedContent[]> =>
    (await supervisorOf(source)?.read(({ own }) => namedContents(own, sha256))) ?? [];
  return {
    find: async (source, sha256) => {
      const [content] = await contentsOf(source, sha256);
      return content === undefined ? null : { sha256, bytes: content.bytes, type: content.type };
    },
    read: async (source, sha256) => {
      const files = supervisorOf(source)?.source.files;
      const contents = await contentsOf(source, sha256);
      for (const address of files === undefined ? [] : storesOf(files)) {
        const content = contents.find(({ store: named }) => named === address.name);
        if (files === undefined || content === undefined) continue;
        const store = await stores.at(address, files);
        if ((await store.head(sha256)) !== null) return checkLength(await store.read(sha256), content.bytes);
      }
      throw objectMissing(sha256);
    },
    close: () => stores.close(),
  };
}

/** Fails at the end unless the stream had this many bytes, so that no viewer takes a part for the whole. */
function checkLength(stream: AsyncIterable<Buffer>, bytes: number): Readable {
  async function* pieces(): AsyncGenerator<Buffer> {
    let length = 0;
    for await (const piece of stream) {
      length += piece.length;
      if (length > bytes) break;
      yield piece;
    }
    if (length === bytes) return;
    throw new SyncError('file_missing', `the object does not have ${bytes} bytes`, {
      recovery: 'stop',
      hint: 'content-sync files verify --repair fetches incomplete files again',
    });
  }
  return Readable.from(pieces(), { objectMode: false });
}
