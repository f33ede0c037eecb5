import { fork, spawnSync } from 'node:child_process';
import { globSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { SandboxOptions } from '../sandbox/service/sandbox.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');
const BUILT = path.join(ROOT, 'dist/src/main.js');
const SOURCES = ['src/**/*.ts', 'migrations/**/*.ts', 'package-lock.json'];
export const KEY = 'bench-key';

/** The file that starts the program: of the build, which is made anew if it is older than the sources, or of the sources. */
export function productMain(isSource: boolean): string {
  if (isSource) return path.join(ROOT, 'src/main.ts');
  const newest = Math.max(...globSync(SOURCES, { cwd: ROOT }).map((file) => changedAt(path.join(ROOT, file))));
  if (changedAt(BUILT) >= newest) return BUILT;
  const { status, stderr } = spawnSync('npm', ['run', '-s', 'build'], { cwd: ROOT, encoding: 'utf8' });
  if (status !== 0) throw new Error(`npm run build ended with ${status}:\n${stderr}`);
  return BUILT;
}

function changedAt(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

/** A sandbox as a process of its own. */
export interface Service {
  url: string;
  pid: number;
  stop(): void;
}

/** Starts one. */
export async function startService(options: SandboxOptions): Promise<Service> {
  const main = path.join(ROOT, 'test/bench/sandbox-process.ts');
  const child = fork(main, [JSON.stringify({ ...options, apiKey: KEY })]);
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  child.once('message', ({ answer }: { answer: { url: string } }) => resolve(answer.url));
  child.on('exit', () => reject(new Error('the sandbox did not start')));
  return { url: await promise, pid: child.pid ?? 0, stop: () => child.kill() };
}

/** One with so many posts in numbered pages, of which it keeps a GiB ready once they were asked for. */
export function startPosts(records: number): Promise<Service> {
  const generate = { content: records };
  return startService({ generate, pagination: 'page', cache: 2 ** 30 });
}

interface Copy {
  url: string;
  /** The `warehouse` setting. */
  warehouse: string;
  /** What is run; a backfill if absent. */
  command?: 'backfill' | 'sync';
  /** Records per page; 500 if absent. */
  page?: number;
}

/** Arguments of a run of the posts alone; writes its config and profile into the folder. */
export function backfillOf(main: string, folder: string, copy: Copy): string[] {
  const { url, warehouse, page = 500, command = 'backfill' } = copy;
  const profile = path.join(folder, 'bench.yaml');
  const content = { page: { size: page } };
  const resources = { images: null, analytics: null, content };
  // JSON is YAML.
  writeFileSync(profile, JSON.stringify({ extends: 'content-service-page', resources }));
  const config = path.join(folder, 'config.yaml');
  const bench = { base_url: url, auth: { type: 'api_key', key: KEY }, profile, rate: { share: 1 } };
  writeFileSync(config, JSON.stringify({ warehouse, sources: { bench } }));
  return [main, command, '--json', '--config', config, '--log-level', 'warn'];
}

/** Throws if a run, by what it has printed, did not read so many records. */
export function expectRecords(stdout: string, records: number): void {
  const { resources }: { resources: { records: number }[] } = JSON.parse(stdout);
  const [report] = resources;
  if (report?.records !== records) throw new Error(`the product read ${report?.records} of ${records} records`);
}
