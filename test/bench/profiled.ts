import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { stageTimes, type CpuProfile, type StageTimes } from './stages.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');

/** What Node is told for `stagesIn`. */
export function profileArgs(folder: string): string[] {
  return ['--cpu-prof', '--cpu-prof-interval', '500', '--cpu-prof-dir', folder];
}

/** Times by stage of the threads whose profiles stand in a folder: `main`, then `thread 1`, `thread 2` and so on. */
export function stagesIn(folder: string): Record<string, StageTimes> {
  const fileOf = sourceFiles();
  const threads = readdirSync(folder).map((name) => {
    const profile: CpuProfile = JSON.parse(readFileSync(path.join(folder, name), 'utf8'));
    // `CPU.<date>.<time>.<pid>.<thread>.<number>.cpuprofile`
    return { thread: Number(name.split('.')[4]), times: stageTimes(profile, fileOf) };
  });
  const sorted = threads.toSorted((a, b) => a.thread - b.thread);
  return Object.fromEntries(sorted.map(({ times }, at) => [at === 0 ? 'main' : `thread ${at}`, times]));
}

/** Finds the source of a place in the code, through the source map that the build has laid beside it, if there is one. */
function sourceFiles(): (frame: { url: string; lineNumber: number; columnNumber: number }) => string {
  const maps = new Map<string, SourceMap | null>();
  return ({ url, lineNumber, columnNumber }) => {
    const isFile = url.startsWith('file:') || url.startsWith('/');
    if (!isFile) return url;
    const file = url.startsWith('file:') ? fileURLToPath(url) : url;
    if (!maps.has(file)) maps.set(file, mapOf(file));
    const found = maps.get(file)?.findEntry(lineNumber, columnNumber);
    const source = found !== undefined && 'originalSource' in found ? found.originalSource : null;
    return path.relative(ROOT, source === null ? file : path.resolve(path.dirname(file), source));
  };
}

function mapOf(file: string): SourceMap | null {
  const map = `${file}.map`;
  return existsSync(map) ? new SourceMap(JSON.parse(readFileSync(map, 'utf8'))) : null;
}
