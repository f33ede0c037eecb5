import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import { runCommand, type Ended } from '../support/command.ts';
import { differences } from '../support/compare-copy.ts';
import type { TestDatabase } from '../support/databases.ts';
import type { LiveService } from './live-service.ts';

/** A real service and an empty warehouse, with the shipped profile between them. */
export interface LiveStage {
  folder: string;
  /** Runs a command line of content-sync on it. */
  command(...args: string[]): Promise<Ended>;
  /** Everything in which the copy is not the service, as sentences. */
  differences(): Promise<string[]>;
}

const SOURCE = 'live';

/** JSON is YAML. */
const write = (file: string, value: object): void => writeFileSync(file, JSON.stringify(value, null, 2));

/** Makes a folder with config and profile; `over` is laid over the shipped profile. */
export async function liveStage(
  service: LiveService,
  database: TestDatabase,
  over: Record<string, unknown> = {},
): Promise<LiveStage> {
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-live-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const warehouse = await database.setting(folder);
  const { baseUrl, auth, profile, resources = {} } = service;
  const config = path.join(folder, 'content-sync.yaml');
  write(path.join(folder, 'profile.yaml'), { extends: profile, resources, ...over });
  write(config, {
    warehouse,
    log: { level: 'warn' },
    sources: { [SOURCE]: { base_url: baseUrl, auth, profile: './profile.yaml' } },
  });
  const address = warehouse.replace('{source}', SOURCE);
  return {
    folder,
    command: (...args) => runCommand([...args, '--config', config], folder),
    differences: () => copyDifferences(service, database, address),
  };
}

async function copyDifferences(service: LiveService, database: TestDatabase, address: string): Promise<string[]> {
  const found: string[] = [];
  for (const resource of service.compared) {
    const records = await service.truth(resource);
    const list = (): { id: string | string[]; text: string }[] =>
      records.map(({ id, record }) => ({ id, text: JSON.stringify(record) }));
    const store = { resources: () => [resource], list };
    // A body is kept as the service wrote it, without what stands in its key besides.
    const bodies = records.every(({ id }) => typeof id === 'string');
    found.push(...(await database.read(address, (db) => differences(db, store, { bodies }))));
  }
  return found;
}
