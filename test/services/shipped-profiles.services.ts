import { describe, expect, it } from 'vitest';
import type { RunReport } from '../../src/sync/report.ts';
import { DATABASES } from '../support/databases.ts';
import { directus } from './directus.ts';
import { ghost } from './ghost.ts';
import { startService, whyNoServices } from './lab.ts';
import { liveStage, type LiveStage } from './live-stage.ts';
import type { LiveService } from './live-service.ts';
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
    await expectEqual(`${name} backfill`, stage, 'backfill');
    for (const edit of service.edits) {
      for (let nth = 0; nth < EDITS_OF_A_KIND; nth += 1) await service.edit(edit, nth);
    }
    const synced = await run(`${name} sync`, stage, 'sync');
    expect(synced.status).toBe('ok');
    // Of what vanished a listing by time says nothing; all else is there.
    const left = await stage.differences();
    expect(left.filter((line) => !isTooMany(line))).toEqual([]);
    await expectEqual(`${name} full walk`, stage, 'backfill');
    await expectEqual(`${name} nothing to do`, stage, 'sync');
  });
});

/** A row of a record that is gone, or what stands below one. */
function isTooMany(line: string): boolean {
  return line.endsWith(': too many') || /^\.\.\. \d+ in all$/.test(line) || / open versions of /.test(line);
}

async function expectCheck(stage: LiveStage): Promise<void> {
  const { code, stdout } = await stage.command('check');
  expect(stdout).not.toContain('FAIL');
  expect(code).toBe(0);
}

async function expectEqual(title: string, stage: LiveStage, command: 'backfill' | 'sync'): Promise<void> {
  const report = await run(title, stage, command);
  expect(await stage.differences()).toEqual([]);
  expect(report.status).toBe('ok');
}

async function run(title: string, stage: LiveStage, command: 'backfill' | 'sync'): Promise<RunReport> {
  const began = performance.now();
  const { stdout, stderr } = await stage.command(command, '--json');
  if (stdout === '') throw new Error(stderr);
  const report: RunReport = JSON.parse(stdout);
  const requests = report.resources.reduce((sum, each) => sum + each.requests, 0);
  const seconds = ((performance.now() - began) / 1_000).toFixed(1);
  const said = report.resources.flatMap(({ resource, warnings = [], error }) => [
    ...warnings.map(({ code, message }) => `${resource} ${code}: ${message}`),
    ...(error === undefined ? [] : [`${resource} ${error.code}: ${error.message}`]),
  ]);
  process.stderr.write(
    `${title}: ${report.status}, ${requests} requests, ${seconds} s${said.map((line) => `\n  ${line}`).join('')}\n`,
  );
  return report;
}
