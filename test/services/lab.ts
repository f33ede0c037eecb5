import { existsSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { spawnSync } from 'node:child_process';

/** Where the scripts stand that install and start real services; beside the repository unless the variable says so. */
const SCRIPTS = process.env['CONTENT_SERVICES'] ?? path.join(import.meta.dirname, '../../../shared/services');

/** Where they keep what they installed. */
export const LAB = process.env['LAB'] ?? path.join(tmpdir(), 'content-services');

/** Null if real services can be started here, else why not. */
export function whyNoServices(): string | null {
  return existsSync(SCRIPTS) ? null : `no scripts for real services at ${SCRIPTS} (set CONTENT_SERVICES)`;
}

/** Starts a service, with its records; it goes on running, so that the next time it is there at once. */
export function startService(script: string): void {
  for (const step of ['start', 'seed']) {
    const { status, stderr } = spawnSync('bash', [path.join(SCRIPTS, `${script}.sh`), step], {
      encoding: 'utf8',
      env: { ...process.env, TMPDIR: '/tmp', LAB },
    });
    if (status !== 0) throw new Error(`${script}.sh ${step} ended with ${status}: ${stderr.slice(-500)}`);
  }
}

/** Reads what a service remembers of its keys. */
export function remembered(...file: string[]): string {
  return readFileSync(path.join(LAB, ...file), 'utf8').trim();
}
