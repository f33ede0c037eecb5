import { readdirSync, rmSync } from 'node:fs';
import path from 'node:path';

/**
 * `node prune-modules.ts FOLDER`: takes out of an installed `node_modules` what a running program never reads: SQLite for
 * other platforms and its sources, types, source maps and documentation. Licences stay.
 */
const [, , folder = 'node_modules'] = process.argv;

const UNREAD = /\.(?:map|d\.[cm]?ts|md|markdown|tsbuildinfo)$/i;
const LICENCE = /licen[cs]e|notice|copying/i;
const SQLITE = path.join(folder, 'better-sqlite3');
const BINARY = new RegExp(`^${process.platform}(?:musl)?-${process.arch}\\.node$`);

for (const sources of ['deps', 'src', 'binding.gyp'])
  rmSync(path.join(SQLITE, sources), { recursive: true, force: true });
const prebuilds = path.join(SQLITE, 'prebuilds');
for (const binary of readdirSync(prebuilds)) if (!BINARY.test(binary)) rmSync(path.join(prebuilds, binary));
for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !UNREAD.test(entry.name) || LICENCE.test(entry.name)) continue;
  rmSync(path.join(entry.parentPath, entry.name));
}
