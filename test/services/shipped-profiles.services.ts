import { describe, expect, it } from 'vitest';
import type { RunReport } from '../../src/sync/report.ts';
import { DATABASES, SQLITE } from '../support/databases.ts';
import { directus } from './directus.ts';
import { ghost } from './ghost.ts';
import { liveStage, type LiveStage, startService, whyNoServices } from './live-stage.ts';
import type { LiveService, TrueRecord } from './live-service.ts';
import { type RecordedRun, startRecorder, writeRecording } from './recording.ts';
import { strapi } from './strapi.ts';
import { wordpress } from './wordpress.ts';

const why = whyNoServices();
if (why !== null) process.stderr.write(`skipped: ${why}\n`);

const SERVICES: readonly { name: string; script: string; open: () => LiveService }[] = [
  { name: 'ghost', script: 'ghost', open: () => ghost('content') },
  { name: 'ghost-admin', script: 'ghost', open: () => ghost('admin') },
  { name: 'strapi', script: 'strapi', open: strapi },
  { name: 'directus', script: 'directus', open: directus },
  { name: 'wordpress', script: 'wordpress', open: wordpress },
];

/** Records that are touched by each kind of edit. */
const EDITS_OF_A_KIND = 5;

describe.skipIf(why !== null).each(SERVICES)('$name', ({ name, script, open }) => {
  it.for(DATABASES)('is what the copy holds, after a backfill and after edits, on %s', async (database) => {
    startService(script);
    const service = open();
    const stage = await liveStage(service, database);
    await expectCheck(stage);
    await expectEqual(`${name} backfill`, service, stage, 'backfill');
    await editAll(service, EDITS_OF_A_KIND);
    const synced = await run(`${name} sync`, stage, 'sync');
    // Of what vanished a listing by time says nothing; all else is there.
    const left = await stage.differences(await truthOf(service));
    expect(left.filter((line) => !isTooMany(line))).toEqual([]);
    expect(synced.status).toBe('ok');
    await expectEqual(`${name} full walk`, service, stage, 'backfill');
    await expectEqual(`${name} nothing to do`, service, stage, 'sync');
  });

  it.runIf(process.env['RECORD'] === '1')('is recorded, small', async () => {
    startService(script);
    const service = open();
    await service.shrink(SMALL);
    const recorder = await startRecorder(service.baseUrl, Object.values(service.auth).map(String));
    const stage = await liveStage({ ...service, baseUrl: recorder.url }, SQLITE);
    const runs: RecordedRun[] = [];
    for (const command of ['backfill', 'sync', 'backfill'] as const) {
      if (runs.length === 1) await editAll(service, 1);
      const report = await run(`${name} ${command}`, stage, command);
      expect(report.status).toBe('ok');
      const exchanges = recorder.exchanges.splice(0);
      // A sync by time does not see what vanished: what it is compared with is what it left.
      const truth = command === 'sync' ? {} : await truthOf(service);
      runs.push({ command, exchanges, truth });
    }
    const { profile, resources = {}, auth } = service;
    const type = Object.fromEntries(Object.entries(auth).map(([key, value]) => [key, falseOf(key, String(value))]));
    writeRecording(name, { service: service.version, profile, resources, auth: type, runs });
  });
});

/** Records that are left for a recording. */
const SMALL = 30;

/** Of the same form, and no secret. */
function falseOf(key: string, value: string): string {
  return key === 'type' || key === 'username' ? value : value.replaceAll(/[1-9a-f]/g, '0');
}

async function editAll(service: LiveService, ofAKind: number): Promise<void> {
  for (const edit of service.edits) {
    for (let nth = 0; nth < ofAKind; nth += 1) await service.edit(edit, nth);
  }
}

async function truthOf(service: LiveService): Promise<Record<string, TrueRecord[]>> {
  const found: Record<string, TrueRecord[]> = {};
  for (const resource of service.compared) found[resource] = await service.truth(resource);
  return found;
}

/** A row of a record that is gone, or what stands below one. */
function isTooMany(line: string): boolean {
  return line.endsWith(': too many') || /^\.\.\. \d+ in all$/.test(line) || / open versions of /.test(line);
}

async function expectCheck(stage: LiveStage): Promise<void> {
  const { code, stdout, stderr } = await stage.command('check');
  expect(stdout + stderr).not.toContain('FAIL');
  expect(code).toBe(0);
}

async function expectEqual(
  title: string,
  service: LiveService,
  stage: LiveStage,
  command: 'backfill' | 'sync',
): Promise<void> {
  const report = await run(title, stage, command);
  expect(await stage.differences(await truthOf(service))).toEqual([]);
  expect(report.status).toBe('ok');
}

async function run(title: string, stage: LiveStage, command: 'backfill' | 'sync'): Promise<RunReport> {
  const began = performance.now();
  const report = await stage.run(command);
  const requests = report.resources.reduce((sum, each) => sum + each.requests, 0);
  const seconds = ((performance.now() - began) / 1_000).toFixed(1);
  const said = report.resources.flatMap(({ resource, warnings = [], error }) => [
    ...warnings.map(({ code, message }) => `\n  ${resource} ${code}: ${message}`),
    ...(error === undefined ? [] : [`\n  ${resource} ${error.code}: ${error.message}`]),
  ]);
  process.stderr.write(`${title}: ${report.status}, ${requests} requests, ${seconds} s${said.join('')}\n`);
  return report;
}
