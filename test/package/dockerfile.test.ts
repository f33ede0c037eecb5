import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startSandbox } from '../sandbox/service/sandbox.ts';
import { MAIN, runCommand } from '../support/command.ts';
import { DATABASES } from '../support/databases.ts';
import { freePort, until } from '../support/serving.ts';
import { root, run, tempFolder } from './built.ts';

interface Instruction {
  name: string;
  text: string;
}

const INSTALL = 'npm ci --ignore-scripts';
const MAKE_FOLDER = /^install -d -o node -g node (\S+)$/;

const dockerfile: readonly Instruction[] = readFileSync(path.join(root, 'Dockerfile'), 'utf8')
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll(/\\\n\s*/g, '')
  .split('\n')
  .flatMap((line) => {
    const [, name, text] = /^([A-Z]+) (.*)$/.exec(line) ?? [];
    return name === undefined || text === undefined ? [] : [{ name, text }];
  });

/** The texts of all instructions of a name. */
function instructionTexts(name: string): string[] {
  return dockerfile.filter((each) => each.name === name).map(({ text }) => text);
}

/** The words of ENTRYPOINT or CMD. */
function execForm(name: string): string[] {
  return JSON.parse(instructionTexts(name).at(-1) ?? '[]');
}

/**
 * Follows the Dockerfile without Docker: each stage is a folder that holds what `COPY` names and nothing else, and its
 * commands run there. Packages are taken from this checkout instead of downloaded. Returns the root of the last stage.
 */
function buildImage(): string {
  const stages = new Map<string, string>();
  let [stage, workdir] = ['', '/'];
  const inStage = (name: string): string => path.join(stage, path.posix.resolve(workdir, name));
  for (const { name, text } of dockerfile) {
    const words = text.split(' ');
    if (name === 'FROM') {
      stage = tempFolder();
      stages.set(words[2] ?? 'last', stage);
      workdir = '/';
    } else if (name === 'WORKDIR') {
      workdir = text;
    } else if (name === 'COPY') {
      const [, from] = /^--from=(\S+)$/.exec(words[0] ?? '') ?? [];
      const target = words.at(-1) ?? '';
      for (const source of words.slice(from === undefined ? 0 : 1, -1)) {
        const to = inStage(target.endsWith('/') ? path.join(target, path.basename(source)) : target);
        if (from === undefined) copyFromContext(source, to);
        else cpSync(path.join(stages.get(from) ?? 'no such stage', source), to, { recursive: true });
      }
    } else if (name === 'RUN') {
      mkdirSync(inStage('.'), { recursive: true });
      runInStage(text, stage, inStage('.'));
    }
  }
  return stage;
}

/** What `.dockerignore` hides is not there for Docker. */
function copyFromContext(source: string, to: string): void {
  expect([source, isInContext(source)]).toEqual([source, true]);
  const filter = (file: string): boolean => isInContext(path.relative(root, file));
  cpSync(path.join(root, source), to, { recursive: true, filter });
}

function runInStage(command: string, stage: string, cwd: string): void {
  const [, made] = MAKE_FOLDER.exec(command) ?? [];
  if (command === INSTALL) {
    linkPackages(path.join(cwd, 'node_modules'));
  } else if (made !== undefined) {
    mkdirSync(path.join(stage, made), { recursive: true });
  } else {
    const [program, ...args] = command.split(' ');
    expect(program).toBe('node');
    const { status, stderr } = run(process.execPath, args, cwd);
    expect([command, status, stderr]).toEqual([command, 0, '']);
  }
}

/** Links, except for the package that the next command changes. */
function linkPackages(modules: string): void {
  mkdirSync(modules, { recursive: true });
  const installed = path.join(root, 'node_modules');
  for (const name of readdirSync(installed)) {
    const [from, to] = [path.join(installed, name), path.join(modules, name)];
    if (name === 'better-sqlite3') cpSync(from, to, { recursive: true });
    else if (name !== '.cache') symlinkSync(from, to);
  }
}

function isInContext(file: string): boolean {
  const rules = readFileSync(path.join(root, '.dockerignore'), 'utf8').trim().split('\n');
  let isIgnored = false;
  for (const rule of rules) {
    const pattern = rule.replace(/^!/, '');
    if (pattern === '*' || file === pattern || path.matchesGlob(file, pattern) || file.startsWith(`${pattern}/`))
      isIgnored = !rule.startsWith('!');
  }
  return !isIgnored;
}

const manifest: { version: string; devDependencies: Record<string, string> } = JSON.parse(
  readFileSync(path.join(root, 'package.json'), 'utf8'),
);

const HAS_NAMESPACES = spawnSync('unshare', ['--pid', '--fork', '--mount-proc', 'true']).status === 0;
if (!HAS_NAMESPACES) console.log('skipped: no process namespaces here, so no health check runs inside one');

interface Output {
  code: unknown;
  stdout: string;
  stderr: string;
}

/** Runs the image's entry point, with the folders of the image in place of those of this machine. */
async function runImage(image: string, args: readonly string[], cwd: string, config?: string): Promise<Output> {
  const [, ...words] = execForm('ENTRYPOINT').map((word) => (word.startsWith('/') ? path.join(image, word) : word));
  const env = config === undefined ? {} : { CONTENT_SYNC_CONFIG: config };
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
      for (const args of [['check'], ['backfill'], ['export', 'parquet', `parquet-${database.name}`]]) {
        const { code, stderr } = await runImage(image, args, folder, config);
        expect({ args, code, stderr }).toEqual({ args, code: 0, stderr: expect.any(String) });
      }
    }
  });

  it('uses the Node that is pinned for development, in every stage', () => {
    const images = instructionTexts('FROM').map((text) => text.split(' ')[0]);
    expect(new Set(images)).toEqual(new Set([`node:${manifest.devDependencies['node']}-bookworm-slim`]));
  });

  it('checks the health of serve or worker at the port of the config, and exits accordingly', async () => {
    const [, command = '[]'] = /CMD (\[.*\])$/.exec(instructionTexts('HEALTHCHECK')[0] ?? '') ?? [];
    const [node, main, ...args]: string[] = JSON.parse(command);
    expect([node, main]).toEqual(['node', execForm('ENTRYPOINT').at(-1)]);
    const statuses = [200, 503];
    const server = createServer((request, response) => {
      response.writeHead(request.url === '/healthz' ? (statuses.shift() ?? 500) : 404).end();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    const address = server.address();
    const here = { host: '0.0.0.0', port: typeof address === 'object' ? address?.port : 0 };
    const folder = tempFolder();
    const check = async (listening: object): Promise<number | null> => {
      const blog = { base_url: 'https://cms.example.com', auth: { type: 'none' }, profile: 'content-service' };
      const config = { warehouse: 'sqlite:blog.db', sources: { blog }, ...listening };
      writeFileSync(path.join(folder, 'content-sync.yaml'), JSON.stringify(config));
      const env = { CONTENT_SYNC_CONFIG: path.join(folder, 'content-sync.yaml') };
      return (await runCommand(args, folder, env)).code;
    };
    const nowhere = { host: '127.0.0.1', port: 1 };
    expect([await check({ serve: here }), await check({ serve: here })]).toEqual([0, 1]);
    statuses.push(200, 503);
    expect([await check({ serve: nowhere, worker: here }), await check({ serve: nowhere, worker: here })]).toEqual([
      0, 1,
    ]);
  });

  // A process namespace is what a container has: the command in it is process 1.
  it.skipIf(!HAS_NAMESPACES)(
    'finds serve at the port of its command line, and does not judge a container that runs another command',
    async () => {
      const folder = tempFolder();
      const blog = { base_url: 'http://127.0.0.1:9', auth: { type: 'none' }, profile: 'content-service' };
      const settings = { warehouse: 'sqlite:blog.db', serve: { port: 1 }, sources: { blog } };
      writeFileSync(path.join(folder, 'content-sync.yaml'), JSON.stringify(settings));
      const env = { ...process.env, CONTENT_SYNC_CONFIG: path.join(folder, 'content-sync.yaml') };
      const inContainer = async (...args: string[]) => {
        const command = ['--pid', '--fork', '--kill-child', '--mount-proc', process.execPath, MAIN, ...args];
        const child = spawn('unshare', command, { cwd: folder, env, stdio: 'ignore' });
        onTestFinished(() => void child.kill('SIGKILL'));
        const children = `/proc/${child.pid}/task/${child.pid}/children`;
        let main = '';
        while (main === '') main = await readFile(children, 'utf8').then((text) => text.trim());
        return () => {
          const enter = ['--target', main, '--pid', '--mount', process.execPath, MAIN, 'health'];
          const { status, stdout } = spawnSync('nsenter', enter, { cwd: folder, env, encoding: 'utf8' });
          return { status, stdout };
        };
      };
      const port = await freePort();
      const health = await inContainer('serve', '--port', String(port));
      await until('healthy', async () => Promise.resolve(health().status === 0));
      expect(health().stdout).toBe(`http://127.0.0.1:${port}/healthz: responds 200\n`);
      const oneShot = await inContainer('sandbox', '--port', '0');
      await until('started', async () => Promise.resolve(oneShot().stdout !== ''));
      expect(oneShot()).toEqual({ status: 0, stdout: 'this container runs sandbox, which is not checked\n' });
    },
  );

  it('runs as an ordinary user, who may write to the one volume', () => {
    expect(instructionTexts('USER')).toEqual(['node']);
    const volume = instructionTexts('VOLUME');
    expect(instructionTexts('WORKDIR').at(-1)).toBe(volume[0]);
    expect(instructionTexts('RUN').at(-1)).toBe(`install -d -o node -g node ${volume[0]}`);
    expect(execForm('CMD')).toEqual(['serve', '--host', '0.0.0.0']);
  });
});
