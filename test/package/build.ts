import { globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { type Plugin, rolldown } from 'rolldown';
import { asPlainLetters } from './plain-letters.ts';

const PACKAGE = /^(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//;

/** Writes `licences.txt`: the licence of every package that has a module among these (absolute paths). */
function writeLicences(folder: string, modules: readonly string[]): void {
  const packages = new Map<string, string>();
  for (const id of modules) {
    const [, place, name] = PACKAGE.exec(id.replace(/^\0/, '')) ?? [];
    if (place !== undefined && name !== undefined) packages.set(name, place);
  }
  const texts = Array.from(packages, ([name, place]) => `${name}\n\n${licenceOf(place)}\n`);
  writeFileSync(path.join(folder, 'licences.txt'), texts.toSorted().join(`\n${'-'.repeat(80)}\n\n`));
}

function licenceOf(place: string): string {
  const files = globSync('{licen[cs]e,LICEN[CS]E,Licen[cs]e,notice,NOTICE}*', { cwd: place });
  if (files.length > 0) return files.map((file) => readFileSync(path.join(place, file), 'utf8')).join('\n');
  const { license, author }: { license?: string; author?: string | { name: string } } = JSON.parse(
    readFileSync(path.join(place, 'package.json'), 'utf8'),
  );
  return `${license ?? 'unknown'}, by ${typeof author === 'string' ? author : (author?.name ?? 'its authors')}`;
}

/**
 * `node build.ts [--maps] [--scripts] [FOLDER]`: writes the program into a folder, `dist` if none is given: our own code and its
 * libraries in a few files, by what commands need together, because to load the thousand files of a command takes as long
 * as its work on a small source; without comments and in ASCII, because each process keeps the text of all that it has loaded.
 * `--maps` adds source maps, which
 * Node does not look for: they are for profiles. `--scripts` writes what tests start
 * as processes of their own in place of the program.
 */
const { values, positionals } = parseArgs({
  options: { maps: { type: 'boolean', default: false }, scripts: { type: 'boolean', default: false } },
  allowPositionals: true,
});
const root = path.join(import.meta.dirname, '..', '..');
const folder = path.resolve(positionals[0] ?? path.join(root, 'dist'));

/** They look for files of their own. */
const APART = ['better-sqlite3', 'pg-native'];
const SCRIPT = /\bprocess\.argv\b/;
const PLACE = /\bimport\.meta\.(url|filename|dirname)\b/g;
const MARK = /__OWN_PLACE__\("(\w+)", "([^"]+)"\)/g;

const built = (file: string): string => file.replace(/\.ts$/, '.js');

/** The files that processes start with, by their paths without the ending. */
function entries(): Record<string, string> {
  const started = values.scripts ? scriptsOfTests() : ['src/main.ts'];
  return Object.fromEntries(started.map((file) => [file.replace(/\.ts$/, ''), `./${file}`]));
}

/** Those that read arguments, and begin with nothing of vitest. */
function scriptsOfTests(): string[] {
  return globSync('test/*/**/*.ts', {
    cwd: root,
    exclude: ['test/{bench,package,services}/**', '**/*.{test,soak}.ts'],
  }).filter((file) => SCRIPT.test(readFileSync(path.join(root, file), 'utf8')));
}

/** What a file of ours says of its own place stays true wherever it ends up: as if each were compiled by itself. */
const ownPlaces: Plugin = {
  name: 'own-places',
  transform: (code, id) => {
    const file = path.relative(root, id);
    if (!file.startsWith('src') || !PLACE.test(code)) return null;
    return { code: code.replace(PLACE, (_, what: string) => `__OWN_PLACE__("${what}", "${built(file)}")`), map: null };
  },
  renderChunk: (code, { fileName }) => {
    const written = code.replace(MARK, (_, what: string, file: string) => {
      const from = path.relative(path.dirname(fileName), what === 'dirname' ? path.dirname(file) : file);
      if (what === 'url') return `new URL(${JSON.stringify(from)}, import.meta.url).href`;
      return `(import.meta.dirname + ${JSON.stringify(`/${from}`)})`;
    });
    return written === code ? null : { code: written, map: null };
  },
};

rmSync(folder, { recursive: true, force: true });
const bundle = await rolldown({
  cwd: root,
  input: entries(),
  platform: 'node',
  external: APART,
  plugins: [ownPlaces],
});
const { output } = await bundle.write({
  dir: folder,
  format: 'esm',
  chunkFileNames: 'src/parts/[name].js',
  comments: false,
  sourcemap: values.maps ? 'hidden' : false,
});
await bundle.close();
const chunks = output.filter((part) => part.type === 'chunk');
for (const { fileName } of chunks) {
  const file = path.join(folder, fileName);
  writeFileSync(file, asPlainLetters(readFileSync(file, 'utf8')));
}
writeLicences(
  folder,
  chunks.flatMap(({ moduleIds }) => moduleIds),
);
