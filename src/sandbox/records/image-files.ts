import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join, parse } from 'node:path';

/** The bytes of records that have a file, by record id. */
export type ImageFiles = ReturnType<typeof imageFiles>;

/** Serves `<id>.<anything>` from a folder that may be missing, else what `generate` makes. */
export function imageFiles(folder: string | null, generate: (id: string) => Uint8Array | null) {
  const paths = folder !== null && existsSync(folder) ? pathsById(folder) : new Map<string, string>();
  const written = new Map<string, Uint8Array | null>();
  return {
    /** Null if there is none. */
    get: (id: string): Uint8Array | null => {
      const own = written.get(id);
      if (own !== undefined) return own;
      const path = paths.get(id);
      return path === undefined ? generate(id) : readFileSync(path);
    },
    put: (id: string, bytes: Uint8Array): void => {
      written.set(id, bytes);
    },
    remove: (id: string): void => {
      written.set(id, null);
    },
  };
}

function pathsById(folder: string): Map<string, string> {
  return new Map(readdirSync(folder).map((file) => [parse(file).name, join(folder, file)]));
}

/** Hex digest, as in an image's record. */
export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
