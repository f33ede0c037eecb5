import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { startSandbox } from '../sandbox/service/sandbox.ts';
import { buildInto, root, run } from './built.ts';

const MEGABYTE = 2 ** 20;

/** The production packages of the lock file, as links to the files that are installed here. */
function linkProduction(app: string): void {
  const { packages }: { packages: Record<string, { dev?: boolean; devOptional?: boolean }> } = JSON.parse(
    readFileSync(path.join(root, 'package-lock.json'), 'utf8'),
  );
  for (const [place, { dev, devOptional }] of Object.entries(packages)) {
    const from = path.join(root, place);
    const isWanted = place !== '' && dev !== true && devOptional !== true;
    // One within another came with that one; one for another platform is not here.
    if (!isWanted || !existsSync(from) || existsSync(path.join(app, place))) continue;
    mkdirSync(path.dirname(path.join(app, place)), { recursive: true });
    expect(run('cp', ['-al', from, path.join(app, place)], root)).toMatchObject({ status: 0 });
  }
}

/** Bytes on disk, as an image holds them. */
function sizeOf(folder: string): number {
  return Number.parseInt(spawnSync('du', ['-sk', folder], { encoding: 'utf8' }).stdout, 10) * 1024;
}

it('modules of the container take less than 60 MB, and a copy is made with them', async () => {
  const cache = path.join(root, 'node_modules/.cache');
  mkdirSync(cache, { recursive: true });
  // On the disk of the modules, so that nothing is copied.
  const app = mkdtempSync(path.join(cache, 'pruned-'));
  onTestFinished(() => rmSync(app, { recursive: true, force: true }));
  buildInto(app);
  linkProduction(app);
  const modules = path.join(app, 'node_modules');
  const whole = sizeOf(modules);
  const dockerfile = readFileSync(path.join(root, 'Dockerfile'), 'utf8');
  const [, script = ''] = /^RUN node (\S+) node_modules$/m.exec(dockerfile) ?? [];
  expect(run(process.execPath, [path.join(root, script), modules], root)).toMatchObject({ status: 0, stderr: '' });
  const pruned = sizeOf(modules);
  console.log(`production modules: ${Math.round(whole / MEGABYTE)} MB, pruned ${Math.round(pruned / MEGABYTE)} MB`);
  expect(pruned).toBeLessThan(60 * MEGABYTE);

  const sandbox = await startSandbox({ generate: { content: 20, images: 2, analytics: 2 } });
  onTestFinished(() => sandbox.close());
  const auth = { type: 'api_key', key: sandbox.apiKey };
  const blog = { base_url: sandbox.url, auth, profile: 'content-service' };
  writeFileSync(
    path.join(app, 'content-sync.yaml'),
    JSON.stringify({ warehouse: 'sqlite:blog.db', sources: { blog } }),
  );
  for (const args of [['sync'], ['export', 'parquet', 'out']]) {
    const command = [path.join(app, 'dist/src/main.js'), ...args, '--config', 'content-sync.yaml'];
    const child = spawn(process.execPath, command, { cwd: app, stdio: 'ignore' });
    expect([args[0], ...(await once(child, 'close'))]).toEqual([args[0], 0, null]);
  }
});
