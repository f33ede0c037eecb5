import { createHash } from 'node:crypto';
import {
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import type { Plugin } from 'rolldown';

const ROOT = path.join(import.meta.dirname, '../..');
/** Below `node_modules`, so that native packages are found, and always the same, so that compiled code is kept. */
const FOLDER = path.join(ROOT, 'node_modules/.cache/content-sync-tests');
const MAIN = 'src/main.ts';
const SOURCES = ['src/**/*.ts', 'migrations/*.ts', 'package.json', 'package-lock.json', 'test/support/bundle.ts'];

/**
 * The command line in few files, made from the sources of this moment: a thousand modules take three times as long to
 * load. Laid out as the sources are, so that it finds its threads and its profiles. Returns the file to start.
 */
export async function bundledMain(): Promise<string> {
  const stamp = path.join(FOLDER, 'stamp');
  const state = stateOfSources();
  const main = path.join(FOLDER, asScript(MAIN));
  if (textOf(stamp) === state) return main;
  const { rolldown } = await import('rolldown');
  const build = await rolldown({
    cwd: ROOT,
    input: Object.fromEntries([MAIN, ...threads()].map((file) => [file.replace(/\.ts$/, ''), file])),
    platform: 'node',
    external: ['better-sqlite3', 'pg-native'],
    plugins: [ownPlaces],
    logLevel: 'silent',
  });
  const { output } = await build.generate({ entryFileNames: '[name].js', chunkFileNames: 'src/[name].js' });
  await build.close();
  for (const file of output) if (file.type === 'chunk') put(path.join(FOLDER, file.fileName), file.code);
  for (const name of ['package.json', 'config'])
    if (!existsSync(path.join(FOLDER, name))) symlinkSync(path.join(ROOT, name), path.join(FOLDER, name));
  put(stamp, state);
  return main;
}

/** Another run in this folder may just be starting what it made of the same sources. */
function put(file: string, text: string): void {
  if (textOf(file) === text) return;
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(`${file}.${process.pid}`, text);
  renameSync(`${file}.${process.pid}`, file);
}

function textOf(file: string): string | null {
  return existsSync(file) ? readFileSync(file, 'utf8') : null;
}

function asScript(file: string): string {
  return file.replace(/\.ts$/, '.js');
}

/** When each file was changed: what was bundled from the same files need not be bundled again. */
function stateOfSources(): string {
  const files = globSync(SOURCES, { cwd: ROOT });
  const times = files.toSorted().map((file) => [file, statSync(path.join(ROOT, file)).mtimeMs]);
  return createHash('sha256').update(JSON.stringify(times)).digest('hex');
}

/** Files that others start as a thread: `new URL('thread/thread...', import.meta.url)`. */
function threads(): string[] {
  return globSync('src/**/*.ts', { cwd: ROOT }).flatMap((file) => {
    const text = readFileSync(path.join(ROOT, file), 'utf8');
    const named = [...text.matchAll(/new URL\(\s*['"`]([\w./-]+)/g)].map(([, to = '']) => to.replace(/\.ts$/, ''));
    const found = named.map((to) => `${path.join(path.dirname(file), to)}.ts`);
    return found.filter((other) => existsSync(path.join(ROOT, other)));
  });
}

/** Whatever file a module's code ends up in, the module takes itself for where it would be in a build. */
const ownPlaces: Plugin = {
  name: 'own places',
  transform: {
    filter: { id: path.join(ROOT, '{src,migrations}/**') },
    handler(code, id) {
      if (!code.includes('import.meta')) return null;
      const place = path.join(FOLDER, asScript(path.relative(ROOT, id)));
      const literals = {
        'import.meta.url': `file://${place}`,
        'import.meta.filename': place,
        'import.meta.dirname': path.dirname(place),
      };
      return Object.entries(literals).reduce(
        (text, [name, value]) => text.replaceAll(name, JSON.stringify(value)),
        code,
      );
    },
  },
};
