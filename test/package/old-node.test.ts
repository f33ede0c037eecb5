import { existsSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { buildInto, run, tempFolder } from './built.ts';

const NEEDED = 24;

/** The first Node on the PATH that is none of ours and too old; null if there is none. */
function oldNode(): string | null {
  const folders = (process.env['PATH'] ?? '')
    .split(path.delimiter)
    .filter((folder) => !folder.includes('node_modules'));
  const nodes = folders.map((folder) => path.join(folder, 'node')).filter((file) => existsSync(file));
  return (
    nodes.find((file) => Number.parseInt(run(file, ['-p', 'process.versions.node'], '/').stdout, 10) < NEEDED) ?? null
  );
}

const old = oldNode();
if (old === null) console.log(`skipped: no Node below ${NEEDED} is on the PATH, so no start under one is tried`);

it.skipIf(old === null)(
  'a start under an older Node says in one line which one it needs, before it loads anything',
  () => {
    const app = tempFolder();
    // No library is there: to load one would fail in other words.
    buildInto(app);
    for (const args of [['--version'], ['serve'], []]) {
      const { status, stdout, stderr } = run(old ?? '', [path.join(app, 'dist/src/main.js'), ...args], app);
      expect([status, stdout]).toEqual([2, '']);
      expect(stderr).toMatch(/^content-sync needs Node 24 or later, and this is Node \d+\.\d+\.\d+: \/.*\n$/);
    }
  },
);
