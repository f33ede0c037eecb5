import { Readable } from 'node:stream';
import type { Clock } from '../model/clock.ts';
import { SyncError } from '../model/errors.ts';
import { objectMissing } from '../object-store/object-store.ts';
import { openStores } from '../object-store/open-stores.ts';
import { storesOf, type FilesSettings } from '../settings/file-stores.ts';
import { namedContents, type NamedContent } from '../state/files/shown-files.ts';
import type { StatusParts } from './status/source-status.ts';

/** A content that a row of a copy names. */
export type ShownFile = Omit<NamedContent, 'store'>;

/** A part of a content. */
export interface FilePart {
  from: number;
  bytes: number;
}

/** The contents of files of the sources that are served, for who looks at them. */
export interface ShownFiles {
  /** Null if no row names it, or there is no such source. */
  find(source: string, sha256: string): Promise<ShownFile | null>;
  /** A part of it. Throws `SyncError` (`file_missing`) if no store that is in use has it. */
  read(source: string, sha256: string, part: FilePart): Promise<Readable>;
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
    read: async (name, sha256, part) => {
      const files = sourceOf(name)?.source.files;
      const contents = await contentsOf(name, sha256);
      for (const address of files === undefined ? [] : storesOf(files)) {
        if (files === undefined || !contents.some(({ store }) => store === address.name)) continue;
        const store = await stores.at(address, files);
        if ((await store.head(sha256)) !== null) return partOf(await store.read(sha256), part);
      }
      throw objectMissing(sha256);
    },
    close: () => stores.close(),
  };
}

/** The stream is let go with its last byte that is wanted. */
function partOf(stream: Readable, { from, bytes }: FilePart): Readable {
  return Readable.from(pieces(stream, from, from + bytes), { objectMode: false });
}

async function* pieces(stream: AsyncIterable<Buffer>, from: number, to: number): AsyncGenerator<Buffer> {
  let at = 0;
  for await (const piece of stream) {
    const part = piece.subarray(Math.max(0, from - at), Math.max(0, to - at));
    at += piece.length;
    if (part.length > 0) yield part;
    if (at >= to) return;
  }
  if (at < to) {
    // Its reader must not take it for the whole.
    throw new SyncError('file_missing', `the object has ${at} bytes only`, {
      recovery: 'stop',
      hint: 'content-sync files verify --repair fetches what is not whole again',
    });
  }
}
