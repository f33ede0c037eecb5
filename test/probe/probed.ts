import path from 'node:path';
import pino from 'pino';
import Database from 'better-sqlite3';
import { writeFileSync } from 'node:fs';
import { openApp } from '../../src/server/app.ts';
import { checkCommand } from '../../src/cli/check.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import type { Credential } from '../../src/probe/credential-forms.ts';
import { type ProbeOptions, type ProbeResult, probeService } from '../../src/probe/probe-service.ts';
import { toYaml } from '../../src/probe/profile.ts';
import { loadSettings } from '../../src/config/load-settings.ts';
import type { RunReport } from '../../src/sync/report.ts';
import { runInProcess } from '../cli/in-process.ts';
import { type FakeRecord, SECRET, USER } from './imitations/imitation.ts';
import { tempFolder } from '../support/temp-warehouse.ts';

/** Probes a service at full speed. */
export function probed(url: string, options: Partial<ProbeOptions> = {}): Promise<ProbeResult> {
  return probeService({
    baseUrl: new URL(url),
    credential: null,
    clock: systemClock,
    secrets: [],
    signal: new AbortController().signal,
    ...options,
  });
}

/** The secrets of a source for a scheme that `probe` has found. */
export function authSettings(scheme: ProbeResult['scheme'], { secret, user = '' }: Credential): object {
  const secrets: Readonly<Record<string, object>> = {
    bearer: { token: secret },
    basic: { username: user, password: secret },
    api_key: { key: secret },
  };
  return { type: scheme['type'] ?? 'none', ...secrets[scheme['type'] ?? ''] };
}

/** A warehouse of its own that is filled by the profile as `probe` writes it. */
export function copyBy(result: ProbeResult) {
  const folder = tempFolder();
  const config = path.join(folder, 'content-sync.yaml');
  writeFileSync(path.join(folder, 'profile.yaml'), toYaml(result));
  const source = {
    base_url: result.baseUrl,
    auth: authSettings(result.scheme, { secret: SECRET, user: USER }),
    profile: './profile.yaml',
    deletes: { settle: '0s' },
  };
  writeFileSync(config, JSON.stringify({ warehouse: `sqlite:${folder}/{source}.db`, sources: { fake: source } }));
  return {
    folder,
    config,
    /** What `check` says against it, as lines. */
    faults: async (): Promise<string[]> => {
      const { stdout } = await runInProcess(checkCommand, ['--config', config, '--log-level', 'silent'], folder);
      return stdout.split('\n').filter((line) => line.startsWith('  FAIL'));
    },
    /** Runs the command for all resources. */
    run: async (command: 'backfill' | 'sync'): Promise<RunReport> => {
      const [chosen] = Object.values(loadSettings({ path: config, env: {}, cwd: folder }).sources);
      if (chosen === undefined) throw new Error('the config has one source');
      const app = await openApp({ source: chosen, clock: systemClock, log: pino({ level: 'silent' }), secrets: [] });
      const watcher = { started: () => undefined, page: () => undefined, ended: () => undefined };
      const signal = new AbortController().signal;
      try {
        return await app.sync({ command, resources: chosen.resources, restart: false, signal, watcher });
      } finally {
        await app.close();
      }
    },
    /** The bodies of the live records of a resource, as the service sent them. */
    bodies: (resource: string): FakeRecord[] => {
      const db = new Database(path.join(folder, 'fake.db'), { readonly: true });
      try {
        const query = "SELECT body FROM _sync_versions WHERE resource = ? AND valid_to IS NULL AND op = 'upsert'";
        return db
          .prepare<[string], string>(query)
          .pluck()
          .all(resource)
          .map((body): FakeRecord => JSON.parse(body));
      } finally {
        db.close();
      }
    },
  };
}
