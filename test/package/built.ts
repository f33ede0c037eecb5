import { spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished } from 'vitest';

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

/** The package as its build makes it: `dist`, `config` and the manifests, without any library yet. */
export function buildInto(app: string): void {
  mkdirSync(app, { recursive: true });
  const built = run(process.execPath, [path.join(root, 'test/package/build.ts'), path.join(app, 'dist')], root);
  expect([built.status, built.stdout, built.stderr]).toEqual([0, '', '']);
  for (const file of ['package.json', 'package-lock.json', 'config']) {
    cpSync(path.join(root, file), path.join(app, file), { recursive: true });
  }
}
