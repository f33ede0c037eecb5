import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join, parse } from 'node:path';

/** The bytes behind records that have a file, by record id. */
export interface ImageFiles {
  /** null where there is none. */
  get(id: string): Uint8Array | null;
  put(id: string, bytes: Uint8Array): void;
  remove(id: string): void;
}

/** Serves `<id>.<anything>` from a folder that may be missing; what `generate` makes stands behind it. */
export function imageFiles(folder: string | null, generate: (id: string) => Uint8Array | null): ImageFiles {
  const paths = folder !== null && existsSync(folder) ? pathsById(folder) : new Map<string, string>();
  const written = new Map<string, Uint8Array | null>();
  return {
    get: (id) => {
      const own = written.get(id);
      if (own !== undefined) return own;
      const path = paths.get(id);
      return path === undefined ? generate(id) : readFileSync(path);
    },
    put: (id, bytes) => {
      written.set(id, bytes);
    },
    remove: (id) => {
      written.set(id, null);
    },
  };
}

function pathsById(folder: string): Map<string, string> {
  return new Map(readdirSync(folder).map((file) => [parse(file).name, join(folder, file)]));
}
