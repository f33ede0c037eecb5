import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { packageRoot } from '../../../src/config/load-profile.ts';
import { beginCommand, MAIN, runCommand } from '../../support/command.ts';
import { SQLITE } from '../../support/databases.ts';
import { freePort, servingStage, until } from '../../support/serving.ts';

const documentsIn = (text: string): { kind: string }[] => parseAllDocuments(text).map((each) => each.toJS());

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;
if (!hasSystemd) console.log('skipped: systemd-analyze is not on this machine, so no unit is checked by it');

it('the commands in the files of the package run, and their probes are answered', async () => {
  const port = await freePort();
  const stage = await servingStage({
    database: SQLITE,
    sandbox: { generate: { content: 5, images: 1, analytics: 1 } },
    settings: { serve: { port } },
  });
  const config = path.join(stage.folder, 'content-sync.yaml');
  const env = { CONTENT_SYNC_CONFIG: config };
  // With the values of this stage, as whoever copies them sets their own.
  const text = (name: string): string =>
    readFileSync(path.join(packageRoot(), 'config/deploy/deployment', name), 'utf8')
      .replaceAll('/etc/content-sync/content-sync.yaml', config)
      .replaceAll('8080', `${port}`)
      .replaceAll('ExecStart=content-sync ', `ExecStart=${process.execPath} ${MAIN} `);
  const names = ['content-sync.service', 'content-sync-sync.service', 'content-sync-sync.timer'];
  const units = names.map((name) => path.join(stage.folder, name));
  for (const [index, unit] of units.entries()) writeFileSync(unit, text(`systemd/${names[index]}`));
  const verified = hasSystemd
    ? spawnSync('systemd-analyze', ['verify', '--man=no', ...units], { encoding: 'utf8' })
    : null;
  expect((verified?.stderr ?? '').split('\n').filter((line) => line.includes('content-sync'))).toEqual([]);

  const cron = documentsIn(text('kubernetes/cronjob.yaml')).find(({ kind }) => kind === 'CronJob');
  const [container] = Object(cron).spec.jobTemplate.spec.template.spec.containers;
  expect(await runCommand(container.args, stage.folder, env)).toMatchObject({ code: 0 });
  expect(await endOfUnit(text('systemd/content-sync-sync.service'), stage.folder).ended).toBe(0);

  const { services } = parse(text('compose.yaml'));
  const deployment = documentsIn(text('kubernetes/deployment.yaml')).find(({ kind }) => kind === 'Deployment');
  const [kept] = Object(deployment).spec.template.spec.containers;
  expect(kept.args).toEqual(services.serve.command);
  const served = beginCommand(services.serve.command, { cwd: stage.folder, env });
  for (const name of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
    const { httpGet } = kept[name];
    await until(name, async () => (await fetch(`http://127.0.0.1:${httpGet.port}${httpGet.path}`)).status === 200);
  }
  const [, node, main, ...health] = services.serve.healthcheck.test;
  expect([node, main]).toEqual(['node', '/app/dist/src/main.js']);
  expect(await runCommand(health, stage.folder, env)).toMatchObject({ code: 0 });
  served.kill('SIGTERM');
  expect((await served.ended).code).toBe(0);

  const unit = endOfUnit(text('systemd/content-sync.service'), stage.folder);
  await until('up', async () => (await fetch(`http://127.0.0.1:${port}/healthz`)).status === 200);
  unit.stop();
  expect(await unit.ended).toBe(0);
});

/** Runs a unit's command in a folder of its own; the shell reads its words as systemd does. */
function endOfUnit(unit: string, folder: string): { ended: Promise<number | null>; stop: () => void } {
  const [, command = 'false'] = /^ExecStart=(.*)$/m.exec(unit) ?? [];
  const cwd = path.join(folder, 'state');
  mkdirSync(cwd, { recursive: true });
  const child = spawn('sh', ['-c', `exec ${command}`], { cwd, stdio: 'ignore' });
  const ended = once(child, 'close').then(([code]) => (typeof code === 'number' ? code : null));
  return { ended, stop: () => void child.kill('SIGTERM') };
}
