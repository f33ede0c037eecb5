import { spawnSync } from 'node:child_process';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { runCommand } from '../../support/command.ts';
import { servingStage } from '../../support/serving.ts';
import { tempFolder } from '../../support/temp-warehouse.ts';

/** A config beside nothing else, with secrets from the environment; returns what exports once more. */
function stage(warehouse: string) {
  const folder = tempFolder();
  const blog = {
    base_url: 'https://cms.example.com',
    auth: { type: 'api_key', key: '${BLOG_KEY}' },
    profile: 'content-service',
  };
  const config = { warehouse, serve: { port: 9123 }, sources: { blog } };
  writeFileSync(path.join(folder, 'content-sync.yaml'), JSON.stringify(config));
  writeFileSync(path.join(folder, '.env'), 'BLOG_KEY=k3y-of-the-blog\n');
  const again = async (...args: string[]) => {
    const command = ['export', 'deployment', 'out', '--config', 'content-sync.yaml', '--json', ...args];
    const { code, stdout, stderr } = await runCommand(command, folder);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const said: { written: string[]; unchanged: string[]; kept: string[]; secrets: string[] } = JSON.parse(stdout);
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
