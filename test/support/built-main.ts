import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';

const ROOT = path.join(import.meta.dirname, '../..');
const BUILD = 'test/package/build.ts';
/** Below `node_modules`, so that native packages are found, and always the same, so that compiled code is kept. */
const FOLDER = path.join(ROOT, 'node_modules/.cache/content-sync-tests');
/**
 * The same once more, for what runs it within a process of the tests: compiled code is kept by the place of a file, and
 * what a process with other flags of V8 has left there is thrown away and written anew, by each of both in turn.
 */
const INSIDE = path.join(FOLDER, 'inside');
const SOURCES = ['src/**/*.ts', 'migrations/**/*.ts', BUILD, 'package-lock.json'];

/**
 * The file that starts the command line, built as for a release from the sources of this moment: from the sources
 * themselves a start takes three times as long. Throws if it cannot be built.
 */
export function builtMain(): string {
  const built = path.join(FOLDER, 'dist');
  const isNew = buildUnlessKept(built, [], SOURCES);
  if (isNew || !existsSync(INSIDE)) {
    rmSync(INSIDE, { recursive: true, force: true });
    cpSync(built, path.join(INSIDE, 'dist'), { recursive: true });
    linkSettings(INSIDE);
  }
  return path.join(built, 'src/main.js');
}

/**
 * The folder that holds what tests start as processes of their own, with `.js` in place of `.ts`, built in the same way:
 * to load their sources takes each of them longer than its work. Throws if they cannot be built.
 */
export function builtScripts(): string {
  const folder = path.join(FOLDER, 'scripts');
  buildUnlessKept(folder, ['--scripts'], [...SOURCES, 'test/*/**/*.ts']);
  return folder;
}

/** False where it was built before from the same sources. */
function buildUnlessKept(built: string, options: readonly string[], sources: readonly string[]): boolean {
  const stamp = `${built}.stamp`;
  const state = stateOfSources(sources);
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === state) return false;
  const [next, old] = [`${built}.${process.pid}`, `${built}.${process.pid}.old`];
  mkdirSync(FOLDER, { recursive: true });
  const command = [path.join(ROOT, BUILD), ...options, next];
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { encoding: 'utf8' });
  if (status !== 0 || stdout + stderr !== '') throw new Error(`the build failed: ${stdout}${stderr}`);
  linkSettings(FOLDER);
  // Another run in this clone may just be starting what stands there.
  if (existsSync(built)) renameSync(built, old);
  renameSync(next, built);
  writeFileSync(stamp, state);
  rmSync(old, { recursive: true, force: true });
  return true;
}

/** What the program looks for in the folder above its own. */
function linkSettings(folder: string): void {
  for (const name of ['package.json', 'config'])
    if (!existsSync(path.join(folder, name))) symlinkSync(path.join(ROOT, name), path.join(folder, name));
}

/** The file of the same build that has `runCli`, for use within this process; `main` is what `builtMain` returned. */
export function builtCommands(main: string): string {
  return path.join(path.dirname(main), '../../inside/dist/src/parts/commands.js');
}

/** When each file was changed: what was built from the same files need not be built again. */
function stateOfSources(sources: readonly string[]): string {
  const files = globSync([...sources], { cwd: ROOT });
  const times = files.toSorted().map((file) => [file, statSync(path.join(ROOT, file)).mtimeMs]);
  return createHash('sha256').update(JSON.stringify(times)).digest('hex');
}
