import { spawnSync } from 'node:child_process';
import { appendFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { runCommand } from '../../support/command.ts';
import { servingStage } from '../../support/serving.ts';
import { tempFolder } from '../../support/temp-warehouse.ts';

/** A config beside nothing else, with secrets from the environment; returns what exports once more. */
function stage(warehouse: string, changes: { base_url?: string; schedule?: object } = {}) {
  const folder = tempFolder();
  const blog = {
    base_url: 'https://cms.example.com',
    auth: { type: 'api_key', key: '${BLOG_KEY}' },
    profile: 'content-service',
    ...changes,
  };
  const config = { warehouse, serve: { port: 9123 }, sources: { blog } };
  writeFileSync(path.join(folder, 'content-sync.yaml'), JSON.stringify(config));
  writeFileSync(path.join(folder, '.env'), 'BLOG_KEY=k3y-of-the-blog\n');
  const again = async (...args: string[]) => {
    const command = ['export', 'deployment', 'out', '--config', 'content-sync.yaml', '--json', ...args];
    const { code, stdout, stderr } = await runCommand(command, folder);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const said: { written: string[]; unchanged: string[]; kept: string[]; secrets: string[]; optional: string[] } =
      JSON.parse(stdout);
    return said;
  };
  const text = (name: string): string => readFileSync(path.join(folder, 'out', name), 'utf8');
  return { folder, again, text };
}

it('writes what runs one process on a file, and leaves alone what was changed by hand', async () => {
  const { folder, again, text } = stage('sqlite:data/{source}.db');
  const first = await again();
  expect(first.secrets).toEqual(['BLOG_KEY']);
  expect(first.written).toEqual([
    'README.md',
    'compose.yaml',
    'kubernetes/deployment.yaml',
    'kubernetes/cronjob.yaml',
    'systemd/content-sync.service',
    'systemd/content-sync-sync.service',
    'systemd/content-sync-sync.timer',
  ]);
  for (const name of first.written) expect(text(name)).not.toContain('k3y-of-the-blog');
  const { services, volumes } = parse(text('compose.yaml'));
  expect(Object.keys(services)).toEqual(['serve']);
  expect(services.serve).toMatchObject({
    ports: ['127.0.0.1:9123:9123'],
    read_only: true,
    environment: { BLOG_KEY: '${BLOG_KEY:?is read by the config}' },
    volumes: [`${folder}:/etc/content-sync:ro`, 'data:/var/lib/content-sync'],
  });
  expect(volumes).toEqual({ data: {} });
  const kinds = parseAllDocuments(text('kubernetes/deployment.yaml')).map((each) => each.toJS());
  expect(kinds.map(({ kind }) => kind)).toEqual(['PersistentVolumeClaim', 'Service', 'Deployment']);
  const { spec } = kinds[2];
  expect(spec).toMatchObject({ replicas: 1, strategy: { type: 'Recreate' } });
  expect(spec.template.spec.securityContext).toMatchObject({ fsGroup: 1000, runAsNonRoot: true });
  expect(spec.template.spec.containers[0]).toMatchObject({
    livenessProbe: { httpGet: { path: '/healthz', port: 9123 } },
    securityContext: { readOnlyRootFilesystem: true },
  });
  appendFileSync(path.join(folder, 'out/compose.yaml'), '# mine\n');
  expect(await again()).toMatchObject({ written: [], kept: ['compose.yaml'] });
  expect(await again('--force')).toMatchObject({ written: ['compose.yaml'], kept: [] });
}, 60_000);

it('writes two workers where they can share the work', async () => {
  const { again, text } = stage('postgres://writer@db.example.com/copy?schema={source}&sslmode=verify-full');
  await again();
  const { services, volumes } = parse(text('compose.yaml'));
  expect(services.worker).toMatchObject({ command: ['worker'], deploy: { replicas: 2 } });
  expect(volumes).toBeUndefined();
  const documents = parseAllDocuments(text('kubernetes/deployment.yaml')).map((each) => each.toJS());
  expect(documents.map(({ kind }) => kind)).toEqual(['Service', 'Deployment', 'Deployment']);
  expect(documents[2].spec).toMatchObject({ replicas: 2 });
}, 60_000);

it('names the variables of this config and its profiles alone, and those with a default as optional', async () => {
  const base_url = '${BLOG_URL:-https://cms.example.com}';
  const { folder, again, text } = stage('sqlite:data/{source}.db', { base_url });
  const profile = 'extends: content-service\nabout: { documentation: "https://${DOCS:-example.com}" } # ${NOT_READ}\n';
  writeFileSync(path.join(folder, 'own.yaml'), profile);
  const config = readFileSync(path.join(folder, 'content-sync.yaml'), 'utf8');
  writeFileSync(path.join(folder, 'content-sync.yaml'), config.replace('"content-service"', '"./own.yaml"'));
  writeFileSync(path.join(folder, 'neighbour.yaml'), 'x: ${AWS_SECRET_ACCESS_KEY}\n');
  symlinkSync('/proc/self/environ', path.join(folder, 'link.yaml'));
  mkdirSync(path.join(folder, 'closed'), { mode: 0o000 });
  const { secrets, optional } = await again();
  expect({ secrets, optional }).toEqual({ secrets: ['BLOG_KEY'], optional: ['BLOG_URL', 'DOCS'] });
  const { environment } = parse(text('compose.yaml')).services.serve;
  expect(environment).toMatchObject({ BLOG_KEY: '${BLOG_KEY:?is read by the config}', BLOG_URL: '${BLOG_URL:-}' });
  const [, job] = parseAllDocuments(text('kubernetes/cronjob.yaml')).map((each) => each.toJS());
  const { env } = job.spec.jobTemplate.spec.template.spec.containers[0];
  const optionalOf = (name: string) =>
    env.find((each: { name: string }) => each.name === name)?.valueFrom.secretKeyRef.optional;
  expect([optionalOf('BLOG_KEY'), optionalOf('BLOG_URL')]).toEqual([undefined, true]);
});

it.each([
  [{}, '*/10 * * * *', '*:00/10', '10'],
  [{ incremental: '*/5 * * * *' }, '*/5 * * * *', '*:00/5', '5'],
  [{ incremental: '3-59/20 * * * *' }, '3-59/20 * * * *', '*:03/20', '20'],
  [{ incremental: '7 6 * * 1-5' }, '7 * * * *', '*:07', '60'],
  [{ incremental: null, resources: { content: { incremental: '*/7 * * * *' } } }, '*/4 * * * *', '*:00/4', '4'],
  [{ incremental: null, full: null }, '0 * * * *', '*:00', '60'],
])('starts sync as often as the schedule %j needs, in every file', async (schedule, cron, calendar, minutes) => {
  const { again, text } = stage('sqlite:data/{source}.db', { schedule });
  await again();
  const [, job] = parseAllDocuments(text('kubernetes/cronjob.yaml')).map((each) => each.toJS());
  expect(job.spec).toMatchObject({ schedule: cron, startingDeadlineSeconds: expect.any(Number) });
  expect(job.spec.jobTemplate.spec.activeDeadlineSeconds).toBeGreaterThan(3600);
  expect(text('systemd/content-sync-sync.timer')).toContain(`OnCalendar=${calendar}\n`);
  expect(text('systemd/content-sync-sync.service')).toMatch(/^TimeoutStartSec=/m);
  for (const name of ['systemd/content-sync-sync.timer', 'README.md'])
    expect(text(name)).toContain(`every ${minutes} minutes`);
});

it('names the image everywhere, bounds processes, and lets all units run as one user', async () => {
  const { again, text } = stage('postgres://writer@db.example.com/copy?schema={source}&sslmode=verify-full');
  const { written } = await again('--image', 'registry.example.com/sync:1');
  const images = written.flatMap((name) => [...text(name).matchAll(/^ *image: (.*)$/gm)].map(([, image]) => image));
  expect(images).toHaveLength(5);
  expect(new Set(images)).toEqual(new Set(['registry.example.com/sync:1']));
  const { services } = parse(text('compose.yaml'));
  expect([services.serve.pids_limit, services.worker.pids_limit]).toEqual([100, 100]);
  const units = written.filter((name) => name.endsWith('.service')).map(text);
  expect(units).toHaveLength(3);
  const users = units.map((unit) => /^User=(.+)$/m.exec(unit)?.[1]);
  expect(new Set(users).size).toBe(1);
  expect(users[0]).toBe(userInfo().uid === 0 ? 'content-sync' : userInfo().username);
  expect(units.join('')).not.toMatch(/DynamicUser|npmjs/);
  expect(text('README.md')).toContain('kubectl apply -f kubernetes/deployment.yaml');
});

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;
if (!hasSystemd) console.log('skipped: systemd-analyze is not on this machine, so no unit is checked by it');

it.skipIf(!hasSystemd).each([
  ['one process', 'sqlite:data/{source}.db'],
  ['serve and workers', 'postgres://writer@db.example.com/copy?schema={source}&sslmode=verify-full'],
])(
  'writes units of %s that systemd takes',
  async (_, warehouse) => {
    const { folder, again } = stage(warehouse);
    const { written } = await again();
    const units = written.filter((name) => name.startsWith('systemd/')).map((name) => path.join(folder, 'out', name));
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', ...units], { encoding: 'utf8' });
    expect({ status, stderr: stderr.split('\n').filter((line) => line.includes('content-sync')) }).toEqual({
      status: 0,
      stderr: [],
    });
  },
  60_000,
);

it('asks the port of the config whether serve lives', async () => {
  const serving = await servingStage({ sandbox: { generate: { content: 5, images: 1, analytics: 1 } } });
  const served = await serving.serve({ isInside: true });
  const { port } = new URL(served.url);
  expect(await serving.run('health', 'serve', '--port', port)).toMatchObject({ code: 0 });
  expect((await served.stop()).code).toBe(0);
  const gone = await serving.run('health', 'serve', '--port', port);
  expect(gone).toMatchObject({ code: 1 });
  expect(gone.stdout).toContain('does not answer');
}, 60_000);
