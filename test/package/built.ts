import { spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, inject, onTestFinished } from 'vitest';

export const root = path.join(import.meta.dirname, '..', '..');

/** A folder that is gone when the test is over. */
export function tempFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-package-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function run(command: string, args: readonly string[], cwd: string): SpawnSyncReturns<string> {
  return spawnSync(command, args, { cwd, encoding: 'utf8' });
}

/**
 * The package as its build makes it: `dist`, `config` and the manifests, without any library yet. What was built for the
 * run, of the same sources by the same script, need not be built again.
 */
export function buildInto(app: string): void {
  const [dist, main] = [path.join(app, 'dist'), inject('main')];
  mkdirSync(app, { recursive: true });
  if (main === undefined) {
    const built = run(process.execPath, [path.join(root, 'test/package/build.ts'), dist], root);
    expect([built.status, built.stdout, built.stderr]).toEqual([0, '', '']);
  } else {
    cpSync(path.dirname(path.dirname(main)), dist, { recursive: true });
  }
  for (const file of ['package.json', 'package-lock.json', 'config']) {
    cpSync(path.join(root, file), path.join(app, file), { recursive: true });
  }
}
