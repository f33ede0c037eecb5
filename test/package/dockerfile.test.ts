import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startSandbox } from '../sandbox/service/sandbox.ts';
import { DATABASES } from '../support/databases.ts';
import { root, tempFolder } from './built.ts';
import { buildImage, execForm, instructionTexts } from './dockerfile.ts';

const manifest: { version: string; description: string; devDependencies: Record<string, string> } = JSON.parse(
  readFileSync(path.join(root, 'package.json'), 'utf8'),
);

interface Output {
  code: unknown;
  stdout: string;
  stderr: string;
}

/** Runs the image's entry point, with the folders of the image in place of those of this machine. */
async function runImage(image: string, args: readonly string[], cwd: string, config?: string): Promise<Output> {
  const [, ...words] = execForm('ENTRYPOINT').map((word) => (word.startsWith('/') ? path.join(image, word) : word));
  const env = { ...(config === undefined ? {} : { CONTENT_SYNC_CONFIG: config }) };
  const child = spawn(process.execPath, [...words, ...args], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const output = { code: null, stdout: '', stderr: '' };
  child.stdout.on('data', (chunk) => (output.stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (output.stderr += String(chunk)));
  const [code] = await once(child, 'close');
  return { ...output, code };
}

describe('the Dockerfile', () => {
  it('builds from exactly what it copies, and its program copies a service into both databases', async () => {
    const image = buildImage();
    expect(readdirSync(path.join(image, 'app/node_modules'))).toEqual(['better-sqlite3']);
    expect(existsSync(path.join(image, 'app/dist/licences.txt'))).toBe(true);
    const folder = tempFolder();
    expect(await runImage(image, ['--version'], folder)).toEqual({
      code: 0,
      stdout: `${manifest.version}\n`,
      stderr: '',
    });
    const sandbox = await startSandbox({ generate: { content: 20, images: 2, analytics: 2 } });
    onTestFinished(() => sandbox.close());
    const auth = { type: 'api_key', key: sandbox.apiKey };
    const blog = { base_url: sandbox.url, auth, profile: 'content-service' };
    for (const database of DATABASES) {
      const config = path.join(folder, `${database.name}.json`);
      const warehouse = await database.setting(folder);
      writeFileSync(config, JSON.stringify({ warehouse, sources: { blog } }));
      for (const args of [['backfill'], ['export', 'parquet', `parquet-${database.name}`]]) {
        const { code, stderr } = await runImage(image, args, folder, config);
        expect([database.name, args, code], stderr).toEqual([database.name, args, 0]);
      }
    }
  });

  it('uses the Node that is pinned for development, in every stage', () => {
    const images = instructionTexts('FROM').map((text) => text.split(' ')[0]);
    expect(new Set(images)).toEqual(new Set([`node:${manifest.devDependencies['node']}-bookworm-slim`]));
  });

  it('installs packages once', () => {
    expect(instructionTexts('RUN').filter((text) => text.includes('npm '))).toHaveLength(1);
  });

  it('describes the image with the labels of OCI', () => {
    const labels = [
      ...(instructionTexts('LABEL')[0] ?? '').matchAll(/org\.opencontainers\.image\.([\w.]+)="([^"]*)"/g),
    ];
    expect(Object.fromEntries(labels.map(([, name, value]) => [name, value]))).toEqual({
      title: 'content-sync',
      description: manifest.description,
      version: manifest.version,
      'base.name': `docker.io/library/node:${manifest.devDependencies['node']}-bookworm-slim`,
    });
  });

  it('runs as an ordinary user, who may write to the one volume', () => {
    expect(instructionTexts('USER')).toEqual(['node']);
    const volume = instructionTexts('VOLUME');
    expect(instructionTexts('WORKDIR').at(-1)).toBe(volume[0]);
    expect(instructionTexts('RUN').at(-1)).toBe(`install -d -o node -g node ${volume[0]}`);
    expect(execForm('CMD')).toEqual(['serve', '--host', '0.0.0.0']);
  });
});
