import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';

/**
 * `node prune-modules.ts FOLDER`: removes from an installed `node_modules` what the built program does not load. The build
 * contains every library except SQLite, of which its code, its licence and the binary for this platform stay.
 */
const [, , folder = 'node_modules'] = process.argv;

const EXTERNAL = 'better-sqlite3';
const BINARY = new RegExp(`^${process.platform}(?:musl)?-${process.arch}\\.node$`);

function removeExcept(parent: string, isKept: (name: string) => boolean): void {
  for (const name of readdirSync(parent))
    if (!isKept(name)) rmSync(path.join(parent, name), { recursive: true, force: true });
}

removeExcept(folder, (name) => name === EXTERNAL);
const kept = new Set(['lib', 'prebuilds', 'package.json', 'LICENSE']);
removeExcept(path.join(folder, EXTERNAL), (name) => kept.has(name));
removeExcept(path.join(folder, EXTERNAL, 'prebuilds'), (name) => BINARY.test(name));
